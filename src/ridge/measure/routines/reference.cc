#include "ridge/measure/routines/reference.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <string>

#include "ridge/measure/interpreter.h"
#include "ridge/measure/share.h"

namespace ridge {
namespace {

using Place = std::map<std::string, std::int64_t>;  // index along each named dimension

class Evaluation {
 public:
  Evaluation(const Oracle& oracle, const Expression& e) : oracle_(oracle), e_(e), in_(operands_of(e)) {}

  Expected of(std::int64_t index) const {
    switch (e_.routine->word) {
      case Word::conv: return conv(split(index, axes(e_.result)));
      case Word::gather: return gather(named(index));
      case Word::scatter: return scatter(named(index));
      case Word::topk: return topk(named(index));
      case Word::routed: return routed(named(index));
      case Word::scan: return scan(named(index));
      case Word::quantize: return quantize(named(index));
      case Word::cumsum: break;
    }
    return cumsum(named(index));
  }

 private:
  const std::vector<Axis>& axes(int tensor) const {
    return oracle_.program.tensors[static_cast<std::size_t>(tensor)].axes;
  }
  std::int64_t size(const Axis& axis) const { return axis.named() ? oracle_.dims.at(axis.dim) : axis.literal; }
  static std::string key(const Axis& axis) { return axis.named() ? axis.dim : std::to_string(axis.literal); }

  std::vector<std::int64_t> split(std::int64_t index, const std::vector<Axis>& along) const {
    std::vector<std::int64_t> out(along.size());
    for (std::size_t i = along.size(); i-- > 0; index /= size(along[i])) out[i] = index % size(along[i]);
    return out;
  }
  Place named(std::int64_t index) const {
    Place out;
    const std::vector<std::int64_t> at = split(index, axes(e_.result));
    for (std::size_t i = 0; i < at.size(); ++i) out[key(axes(e_.result)[i])] = at[i];
    return out;
  }

  double at(int tensor, const std::vector<std::int64_t>& place) const {
    std::int64_t index = 0;
    for (std::size_t i = 0; i < place.size(); ++i) index = index * size(axes(tensor)[i]) + place[i];
    return read(oracle_.tensors[static_cast<std::size_t>(tensor)], index);
  }
  double at(int tensor, const Place& place) const {
    std::vector<std::int64_t> out;
    for (const Axis& axis : axes(tensor)) out.push_back(size(axis) == 1 ? 0 : place.at(key(axis)));
    return at(tensor, out);
  }

  // Sums over every channel of the group and every point of the window.
  Expected conv(const std::vector<std::int64_t>& y) const {
    const Routine& r = *e_.routine;
    const std::vector<Axis>& w = axes(in_[1]);
    const std::int64_t each = size(w[1]), groups = size(axes(in_[0])[1]) / each;
    std::int64_t places = each;
    for (std::size_t d = conv_batch_and_channels; d < w.size(); ++d) places *= size(w[d]);
    Expected out;
    for (std::int64_t place = 0; place < places; ++place) {
      std::vector<std::int64_t> weight(w.size()), from(w.size());
      std::int64_t rest = place;
      for (std::size_t d = w.size(); d-- > 1; rest /= size(w[d])) weight[d] = rest % size(w[d]);
      weight[0] = y[1];
      from[0] = y[0];
      from[1] = y[1] * groups / size(w[0]) * each + weight[1];
      bool inside = true;
      for (std::size_t d = conv_batch_and_channels; d < w.size(); ++d) {
        from[d] = y[d] * r.stride + weight[d] * r.dilation - r.padding;
        inside = inside && from[d] >= 0 && from[d] < size(axes(in_[0])[d]);
      }
      if (!inside) continue;
      const double product = at(in_[0], from) * at(in_[1], weight);
      out.value += product;
      out.scale += std::fabs(product);
    }
    out.bound = out.scale * 0x1p-53 * static_cast<double>(places + 2);
    return out;
  }

  std::int64_t index_at(const Place& place) const { return static_cast<std::int64_t>(at(in_[1], place)); }

  Expected gather(Place place) const {
    place[key(e_.routine->over.front())] = index_at(place);
    return {at(in_[0], place), 0, 0};
  }

  // Rows run over the dimensions of the indices that the result lacks.
  Expected scatter(Place place) const {
    const std::int64_t wanted = place.at(key(e_.routine->over.front()));
    std::vector<Axis> rows;
    for (const Axis& axis : axes(in_[1]))
      if (!place.contains(key(axis))) rows.push_back(axis);
    std::int64_t count = 1;
    for (const Axis& axis : rows) count *= size(axis);
    Expected out;
    for (std::int64_t row = 0; row < count; ++row) {
      const std::vector<std::int64_t> at_row = split(row, rows);
      for (std::size_t i = 0; i < rows.size(); ++i) place[key(rows[i])] = at_row[i];
      if (index_at(place) != wanted) continue;
      const double value = at(in_[0], place);
      out.value += value;
      out.scale += std::fabs(value);
      out.bound += 1;
    }
    out.bound *= 0x1p-24 * out.scale;
    return out;
  }

  // An index's rank is the number of values ordered before it.
  Expected topk(const Place& place) const {
    const Axis& over = e_.routine->over.front();
    std::int64_t wanted = 0;
    for (const auto& [dim, at] : place) {
      const auto& from = axes(in_[0]);
      if (std::none_of(from.begin(), from.end(), [&](const Axis& a) { return key(a) == dim; })) wanted = at;
    }
    Place from = place;
    const auto value = [&](std::int64_t i) {
      from[key(over)] = i;
      const double x = at(in_[0], from);
      return std::isnan(x) ? -HUGE_VAL : x;
    };
    const auto nan = [&](std::int64_t i) {
      from[key(over)] = i;
      return std::isnan(at(in_[0], from));
    };
    for (std::int64_t i = 0; i < size(over); ++i) {
      std::int64_t before = 0;
      for (std::int64_t j = 0; j < size(over); ++j) {
        const bool larger = nan(i) != nan(j) ? nan(i) : value(j) > value(i);
        const bool equal = nan(i) == nan(j) && value(j) == value(i);
        before += larger || (equal && j < i);
      }
      if (before == wanted) return {static_cast<double>(i), 0, 0};
    }
    return {-1, 0, 0};
  }

  // True if the expert already has `capacity` rows before this one.
  bool dropped(const Place& place) const {
    if (e_.routine->capacity == 0) return false;
    const Array& ids = oracle_.tensors[static_cast<std::size_t>(in_[2])];
    std::int64_t here = 0, before = 0;
    for (const Axis& axis : axes(in_[2])) here = here * size(axis) + (size(axis) == 1 ? 0 : place.at(key(axis)));
    for (std::int64_t i = 0; i < here; ++i) before += read(ids, i) == read(ids, here);
    return before >= e_.routine->capacity;
  }

  Expected routed(Place place) const {
    if (dropped(place)) return {};
    place[key(e_.routine->over.front())] = static_cast<std::int64_t>(at(in_[2], place));
    std::vector<Axis> summed;
    for (const Axis& axis : axes(in_[0]))
      if (!place.contains(key(axis)) && size(axis) > 1) summed.push_back(axis);
    std::int64_t terms = 1;
    for (const Axis& axis : summed) terms *= size(axis);
    Expected out;
    for (std::int64_t term = 0; term < terms; ++term) {
      const std::vector<std::int64_t> at_term = split(term, summed);
      for (std::size_t i = 0; i < summed.size(); ++i) place[key(summed[i])] = at_term[i];
      const double product = at(in_[0], place) * at(in_[1], place);
      out.value += product;
      out.scale += std::fabs(product);
    }
    out.bound = growth(static_cast<double>(terms), oracle_.random_data) * out.scale;  // summed in f32, as products are
    return out;
  }

  // Runs from the first step. A step uses the same f64 arithmetic as ops/loops, so the bound is 0.
  Expected scan(Place place) const {
    const std::string over = key(e_.routine->over.front());
    const std::int64_t last = place.at(over);
    double value = 0;
    for (std::int64_t t = 0; t <= last; ++t) {
      place[over] = t;
      value = step(e_.nodes.back().arguments[0], place, value);
    }
    return {value, 0, 0};
  }
  double step(int node, const Place& place, double previous) const {
    const Node& n = e_.nodes[static_cast<std::size_t>(node)];
    if (n.kind == Node::Kind::tensor) return at(n.tensor, place);
    if (n.kind == Node::Kind::number) return n.number;
    if (n.kind == Node::Kind::previous) return previous;
    if (n.kind == Node::Kind::index) return static_cast<double>(place.at(key(n.over[0])));
    if (n.kind == Node::Kind::size) return static_cast<double>(size(n.over[0]));
    double a = step(n.arguments[0], place, previous);
    const double b = n.arguments.size() > 1 ? step(n.arguments[1], place, previous) : 0;
    const double c = n.arguments.size() > 2 ? step(n.arguments[2], place, previous) : 0;
    for (int time = 0; time < n.repeat; ++time) a = row(n.function).value(a, b, c);
    return a;
  }

  Expected cumsum(Place place) const {
    const std::string over = key(e_.routine->over.front());
    const std::int64_t last = place.at(over);
    Expected out;
    for (std::int64_t t = 0; t <= last; ++t) {
      place[over] = t;
      const double value = at(in_[0], place);
      out.value += value;
      out.scale += std::fabs(value);
    }
    out.bound = out.scale * 0x1p-53 * static_cast<double>(last + 2);
    return out;
  }

  // Returns the nearest representable value times the block's scale; ties go to the value with an even index.
  Expected quantize(Place place) const {
    const Axis& last = axes(e_.result).back();
    const DTypeInfo& format = info(e_.routine->format);
    const std::string along = key(last);
    const std::int64_t here = place.at(along), first = here - here % format.block;
    const double x = at(in_[0], place);
    double most = 0;
    for (std::int64_t i = 0; i < format.block; ++i) {
      place[along] = first + i;
      const double value = at(in_[0], place);
      if (!std::isfinite(value)) return {.value = std::numeric_limits<double>::quiet_NaN()};
      most = std::max(most, std::fabs(value));
    }
    const double scale = block_scale(format.dtype, most);
    if (scale == 0) return {.value = 0, .scale = 1, .bound = 0x1p-1000};
    const double value = std::copysign(nearest_of(magnitudes(format.bits), std::fabs(x) / scale), x) * scale;
    return {.value = value, .scale = most, .bound = 0x1p-40 * std::fabs(value)};
  }
  // e2m1: 0 0.5 1 1.5 2 3 4 6; e4m3: eighths of powers of two from 2^-6 to 448, and multiples of 2^-9 below.
  static std::vector<double> magnitudes(int bits) {
    if (bits == 4) return {0, 0.5, 1, 1.5, 2, 3, 4, 6};
    std::vector<double> out;
    for (int i = 0; i < 8; ++i) out.push_back(i / 512.0);
    for (int e = -6; e <= 8; ++e)
      for (int i = 8; i < (e == 8 ? 15 : 16); ++i) out.push_back(i / 8.0 * std::pow(2.0, e));
    return out;
  }
  static double nearest_of(const std::vector<double>& all, double x) {
    std::size_t best = 0;
    for (std::size_t i = 1; i < all.size(); ++i) {
      const double now = std::fabs(all[i] - x), before = std::fabs(all[best] - x);
      if (now < before || (now == before && i % 2 == 0)) best = i;
    }
    return all[best];
  }
  static double block_scale(DType format, double most) {
    if (format == DType::e4m3_128) return static_cast<float>(most / 448);
    if (format == DType::nvfp4) return nearest_of(magnitudes(8), most / 6);
    const double top = format == DType::mxfp8 ? 256 : 4;
    double scale = std::pow(2.0, -127);
    while (scale * 2 * top <= most && scale < std::pow(2.0, 127)) scale *= 2;
    return scale;
  }

  const Oracle& oracle_;
  const Expression& e_;
  std::vector<int> in_;
};

}  // namespace

std::vector<Expected> evaluate_routine(const Oracle& oracle, const Expression& routine,
                                       const std::vector<std::int64_t>& indices) {
  const Evaluation evaluation(oracle, routine);
  std::vector<Expected> out(indices.size());
  share(static_cast<std::int64_t>(indices.size()), 64, oracle.threads, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      out[static_cast<std::size_t>(i)] = evaluation.of(indices[static_cast<std::size_t>(i)]);
  });
  return out;
}

double routine_cost(const Oracle& oracle, const Expression& routine) {
  const auto elements = [&](int tensor) {
    double n = 1;
    for (const Axis& axis : oracle.program.tensors[static_cast<std::size_t>(tensor)].axes)
      n *= static_cast<double>(axis.named() ? oracle.dims.at(axis.dim) : axis.literal);
    return n;
  };
  const std::vector<int> in = operands_of(routine);
  constexpr double names = 20;  // nodes per lookup of named dimensions
  switch (routine.routine->word) {
    case Word::conv: {
      const Axis& made = oracle.program.tensors[static_cast<std::size_t>(in[1])].axes[0];
      return names * elements(in[1]) / static_cast<double>(made.named() ? oracle.dims.at(made.dim) : made.literal);
    }
    case Word::gather: return names;
    case Word::scatter: return names * elements(in[1]);
    case Word::topk: {
      const Axis& over = routine.routine->over.front();
      const auto n = static_cast<double>(over.named() ? oracle.dims.at(over.dim) : over.literal);
      return names * n * n;
    }
    case Word::quantize: return names * info(routine.routine->format).block;
    case Word::routed:
      return names * elements(in[1]) / elements(routine.result) + elements(in[2]) + names * elements(in[0]);
    case Word::cumsum:
    case Word::scan: break;
  }
  const Axis& over = routine.routine->over.front();
  return names * static_cast<double>(over.named() ? oracle.dims.at(over.dim) : over.literal);
}

}  // namespace ridge
