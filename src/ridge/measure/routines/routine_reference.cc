#include "ridge/measure/routines/routine_reference.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <string>

#include "ridge/measure/expression_evaluator.h"
#include "ridge/run/parallel_for.h"

namespace ridge {
namespace {

using NamedIndex = std::map<std::string, std::int64_t>;  // index along each named dimension

class ElementEvaluator {
 public:
  ElementEvaluator(const Reference& reference, const Expression& e)
      : reference_(reference), e_(e), in_(expression_operands(e)) {}

  Expected evaluate_element(std::int64_t index) const {
    switch (e_.routine->kind) {
      case RoutineKind::conv: return evaluate_conv(split_index(index, tensor_axes(e_.result)));
      case RoutineKind::conv_transpose: return evaluate_transposed(split_index(index, tensor_axes(e_.result)));
      case RoutineKind::gather: return evaluate_gather(named_position(index));
      case RoutineKind::scatter: return evaluate_scatter(named_position(index));
      case RoutineKind::topk:
      case RoutineKind::argmax:
      case RoutineKind::sort:
      case RoutineKind::argsort: return evaluate_ranking(named_position(index));
      case RoutineKind::rotary: return evaluate_rotary(named_position(index));
      case RoutineKind::max_pool:
      case RoutineKind::avg_pool: return evaluate_pool(split_index(index, tensor_axes(e_.result)));
      case RoutineKind::routed: return evaluate_routed(named_position(index));
      case RoutineKind::scan: return evaluate_scan(named_position(index));
      case RoutineKind::quantize: return evaluate_quantize(named_position(index));
      case RoutineKind::cumsum: break;
    }
    return evaluate_cumsum(named_position(index));
  }

 private:
  const std::vector<Axis>& tensor_axes(int tensor) const { return reference_.program.tensors[tensor].axes; }
  std::int64_t size(const Axis& axis) const { return axis.is_named() ? reference_.dims.at(axis.dim) : axis.literal; }
  static std::string axis_key(const Axis& axis) { return axis.is_named() ? axis.dim : std::to_string(axis.literal); }

  std::vector<std::int64_t> split_index(std::int64_t index, const std::vector<Axis>& along) const {
    std::vector<std::int64_t> out(along.size());
    for (std::size_t i = along.size(); i-- > 0; index /= size(along[i])) out[i] = index % size(along[i]);
    return out;
  }
  NamedIndex named_position(std::int64_t index) const {
    NamedIndex out;
    const std::vector<std::int64_t> at = split_index(index, tensor_axes(e_.result));
    for (std::size_t i = 0; i < at.size(); ++i) out[axis_key(tensor_axes(e_.result)[i])] = at[i];
    return out;
  }

  double read_at(int tensor, const std::vector<std::int64_t>& position) const {
    std::int64_t index = 0;
    for (std::size_t i = 0; i < position.size(); ++i) index = index * size(tensor_axes(tensor)[i]) + position[i];
    return read_element(reference_.tensors[tensor], index);
  }
  double read_at(int tensor, const NamedIndex& position) const {
    std::vector<std::int64_t> out;
    for (const Axis& axis : tensor_axes(tensor)) out.push_back(size(axis) == 1 ? 0 : position.at(axis_key(axis)));
    return read_at(tensor, out);
  }

  // Sums over every channel of the group and every point of the window.
  Expected evaluate_conv(const std::vector<std::int64_t>& y) const {
    const Routine& r = *e_.routine;
    const std::vector<Axis>& w = tensor_axes(in_[1]);
    const auto [channels, first_window] = conv_axes(r, w.size());
    const std::int64_t each = size(w[channels]), groups = size(tensor_axes(in_[0])[channels]) / each;
    std::int64_t window_points = 1;
    for (std::size_t d = 1; d < w.size(); ++d) window_points *= size(w[d]);
    Expected out;
    for (std::int64_t point = 0; point < window_points; ++point) {
      std::vector<std::int64_t> weight(w.size()), from(w.size());
      std::int64_t rest = point;
      for (std::size_t d = w.size(); d-- > 1; rest /= size(w[d])) weight[d] = rest % size(w[d]);
      weight[0] = y[channels];
      from[0] = y[0];
      from[channels] = y[channels] * groups / size(w[0]) * each + weight[channels];
      bool is_inside = true;
      for (std::size_t d = first_window; d < first_window + w.size() - 2; ++d) {
        from[d] = y[d] * r.stride + weight[d] * r.dilation - r.padding;
        is_inside = is_inside && from[d] >= 0 && from[d] < size(tensor_axes(in_[0])[d]);
      }
      // The padding is 0, which an infinite weight turns into NaN.
      const double product = (is_inside ? read_at(in_[0], from) : 0) * read_at(in_[1], weight);
      out.value += product;
      out.scale += std::fabs(product);
    }
    out.bound = sum_error_growth(static_cast<double>(window_points), reference_.random_data) * out.scale;
    return out;
  }

  // Sums over every channel of the group and every element of the weights from which an input element reaches y.
  Expected evaluate_transposed(const std::vector<std::int64_t>& y) const {
    const Routine& r = *e_.routine;
    const std::vector<Axis>&x = tensor_axes(in_[0]), &w = tensor_axes(in_[1]);
    const auto [channels, first_window] = conv_axes(r, w.size());
    const std::int64_t outputs = size(w[channels]), groups = size(tensor_axes(e_.result)[channels]) / outputs,
                       inputs = size(x[channels]) / groups;
    std::int64_t window_points = 1;
    for (std::size_t d = first_window; d < first_window + w.size() - 2; ++d) window_points *= size(w[d]);
    Expected out;
    for (std::int64_t point = 0; point < window_points; ++point) {
      std::vector<std::int64_t> weight(w.size()), from(w.size());
      std::int64_t rest = point;
      bool reaches = true;
      for (std::size_t d = first_window; d < first_window + w.size() - 2; ++d) {
        weight[d] = rest % size(w[d]);
        rest /= size(w[d]);
        const std::int64_t distance = y[d] + r.padding - weight[d] * r.dilation;
        from[d] = distance / r.stride;
        reaches = reaches && distance >= 0 && distance % r.stride == 0 && from[d] < size(x[d]);
      }
      if (!reaches) continue;
      from[0] = y[0];
      weight[channels] = y[channels] % outputs;
      for (std::int64_t c = 0; c < inputs; ++c) {
        from[channels] = weight[0] = y[channels] / outputs * inputs + c;
        const double product = read_at(in_[0], from) * read_at(in_[1], weight);
        out.value += product;
        out.scale += std::fabs(product);
      }
    }
    const auto terms = static_cast<double>(window_points * inputs);
    out.bound = sum_error_growth(terms, reference_.random_data) * out.scale;
    return out;
  }

  std::int64_t index_at(const NamedIndex& position) const {
    return static_cast<std::int64_t>(read_at(in_[1], position));
  }

  Expected evaluate_gather(NamedIndex position) const {
    position[axis_key(e_.routine->over.front())] = index_at(position);
    return {read_at(in_[0], position), 0, 0};
  }

  // Rows run over the dimensions of the indices that the result lacks.
  Expected evaluate_scatter(NamedIndex position) const {
    const std::int64_t target_index = position.at(axis_key(e_.routine->over.front()));
    std::vector<Axis> rows;
    for (const Axis& axis : tensor_axes(in_[1]))
      if (!position.contains(axis_key(axis))) rows.push_back(axis);
    std::int64_t count = 1;
    for (const Axis& axis : rows) count *= size(axis);
    Expected out;
    for (std::int64_t row = 0; row < count; ++row) {
      const std::vector<std::int64_t> at_row = split_index(row, rows);
      for (std::size_t i = 0; i < rows.size(); ++i) position[axis_key(rows[i])] = at_row[i];
      if (index_at(position) != target_index) continue;
      const double value = read_at(in_[0], position);
      out.value += value;
      out.scale += std::fabs(value);
      out.bound += 1;
    }
    out.bound *= 0x1p-24 * out.scale;
    return out;
  }

  // Visits the elements of x in the window of an element of the result.
  Expected evaluate_pool(const std::vector<std::int64_t>& y) const {
    const Routine& r = *e_.routine;
    const std::vector<Axis>& x = tensor_axes(in_[0]);
    std::int64_t window_points = 1;
    for (std::size_t i = 0; i < r.over.size(); ++i) window_points *= r.window;
    Expected out;
    double largest = -std::numeric_limits<double>::infinity();
    for (std::int64_t point = 0; point < window_points; ++point) {
      std::vector<std::int64_t> from = y;
      std::int64_t rest = point;
      bool is_inside = true;
      for (std::size_t d = 0; d < x.size(); ++d) {
        if (std::find(r.over.begin(), r.over.end(), x[d]) == r.over.end()) continue;
        from[d] = y[d] * r.stride + rest % r.window * r.dilation - r.padding;
        rest /= r.window;
        is_inside = is_inside && from[d] >= 0 && from[d] < size(x[d]);
      }
      if (!is_inside) continue;
      const double value = read_at(in_[0], from);
      largest = std::isnan(value) || value > largest ? value : largest;
      out.value += value;
      out.scale += std::fabs(value);
    }
    if (r.kind == RoutineKind::max_pool) return {largest, 0, 0};
    const auto points = static_cast<double>(window_points);
    out.value /= points;
    out.scale /= points;
    out.bound = sum_error_growth(points, reference_.random_data) * out.scale + 0x1p-24 * std::fabs(out.value);
    return out;
  }

  Expected evaluate_rotary(NamedIndex position) const {
    const Routine& r = *e_.routine;
    const std::string over = axis_key(r.over.front());
    const std::int64_t n = size(r.over.front()), pairs = n / 2, at = position.at(over);
    const std::int64_t pair = r.interleaved ? at / 2 : at % pairs;
    const bool is_second = r.interleaved ? at % 2 == 1 : at >= pairs;
    const double angle =
        read_at(in_[1], position) *
        std::pow(static_cast<double>(r.base), -2.0 * static_cast<double>(pair) / static_cast<double>(n));
    const double own = read_at(in_[0], position);
    position[over] = r.interleaved ? at ^ 1 : (at + pairs) % n;
    const double other = read_at(in_[0], position);
    Expected out;
    out.value = own * std::cos(angle) + (is_second ? other : -other) * std::sin(angle);
    out.scale = std::fabs(own) + std::fabs(other);
    out.bound = 0x1p-21 * out.scale;
    return out;
  }

  // An element's rank is the number of elements ordered before it.
  Expected evaluate_ranking(const NamedIndex& position) const {
    const bool sorts = e_.routine->kind == RoutineKind::sort || e_.routine->kind == RoutineKind::argsort,
               ascending = sorts && !e_.routine->descending;
    const Axis& over = e_.routine->over.front();
    std::int64_t target_rank = sorts ? position.at(axis_key(over)) : 0;
    for (const auto& [dim, at] : position) {
      const auto& from = tensor_axes(in_[0]);
      if (std::none_of(from.begin(), from.end(), [&](const Axis& a) { return axis_key(a) == dim; })) target_rank = at;
    }
    NamedIndex from = position;
    std::vector<double> line;
    std::vector<std::int64_t> order;
    for (std::int64_t i = 0; i < size(over); ++i) {
      from[axis_key(over)] = i;
      line.push_back(read_at(in_[0], from));
      order.push_back(i);
    }
    std::stable_sort(order.begin(), order.end(), [&](std::int64_t i, std::int64_t j) {
      if (std::isnan(line[i]) != std::isnan(line[j])) return std::isnan(line[j]);
      return ascending ? line[i] < line[j] : line[i] > line[j];
    });
    if (e_.routine->kind == RoutineKind::sort) return {line[order[target_rank]], 0, 0};
    return {static_cast<double>(target_rank < size(over) ? order[target_rank] : -1), 0, 0};
  }

  // True if the expert already has `capacity` rows before this one.
  bool is_dropped(const NamedIndex& position) const {
    if (e_.routine->capacity == 0) return false;
    const Array& ids = reference_.tensors[in_[2]];
    std::int64_t flat_index = 0, before = 0;
    for (const Axis& axis : tensor_axes(in_[2]))
      flat_index = flat_index * size(axis) + (size(axis) == 1 ? 0 : position.at(axis_key(axis)));
    for (std::int64_t i = 0; i < flat_index; ++i) before += read_element(ids, i) == read_element(ids, flat_index);
    return before >= e_.routine->capacity;
  }

  Expected evaluate_routed(NamedIndex position) const {
    if (is_dropped(position)) return {};
    position[axis_key(e_.routine->over.front())] = static_cast<std::int64_t>(read_at(in_[2], position));
    std::vector<Axis> summed;
    for (const Axis& axis : tensor_axes(in_[0]))
      if (!position.contains(axis_key(axis)) && size(axis) > 1) summed.push_back(axis);
    std::int64_t terms = 1;
    for (const Axis& axis : summed) terms *= size(axis);
    Expected out;
    for (std::int64_t term = 0; term < terms; ++term) {
      const std::vector<std::int64_t> at_term = split_index(term, summed);
      for (std::size_t i = 0; i < summed.size(); ++i) position[axis_key(summed[i])] = at_term[i];
      const double product = read_at(in_[0], position) * read_at(in_[1], position);
      out.value += product;
      out.scale += std::fabs(product);
    }
    const auto k = static_cast<double>(terms);  // Summed in f32, as products are
    out.bound =
        (sum_error_growth(k, reference_.random_data) + tensor_core_error(reference_, in_[0], in_[1], k)) * out.scale;
    return out;
  }

  // Runs from the first step. Kernels compute in f32, so the errors of a step grow in those after it.
  Expected evaluate_scan(NamedIndex position) const {
    const std::string over = axis_key(e_.routine->over.front());
    const std::int64_t last = position.at(over);
    ValueWithError value;
    for (std::int64_t t = 0; t <= last; ++t) {
      position[over] = t;
      value = evaluate_step(e_.nodes.back().arguments[0], position, value);
    }
    return {value.value, 0, value.error};
  }
  ValueWithError evaluate_step(int node, const NamedIndex& position, const ValueWithError& previous) const {
    const Node& n = e_.nodes[node];
    if (n.kind == Node::Kind::tensor) return {read_at(n.tensor, position), 0};
    if (n.kind == Node::Kind::number) return constant_value(n.number);
    if (n.kind == Node::Kind::previous) return previous;
    if (n.kind == Node::Kind::index) return {static_cast<double>(position.at(axis_key(n.over[0]))), 0};
    if (n.kind == Node::Kind::size) return constant_value(static_cast<double>(size(n.over[0])));
    const auto argument = [&](std::size_t i) {
      return i < n.arguments.size() ? evaluate_step(n.arguments[i], position, previous) : ValueWithError{};
    };
    ValueWithError a = argument(0);
    const ValueWithError b = argument(1), c = argument(2);
    for (int time = 0; time < n.repeat; ++time) a = evaluate_call(n.function, a, b, c);
    return a;
  }

  Expected evaluate_cumsum(NamedIndex position) const {
    const std::string over = axis_key(e_.routine->over.front());
    const std::int64_t last = position.at(over);
    Expected out;
    for (std::int64_t t = 0; t <= last; ++t) {
      position[over] = t;
      const double value = read_at(in_[0], position);
      out.value += value;
      out.scale += std::fabs(value);
    }
    out.bound = out.scale * 0x1p-53 * static_cast<double>(last + 2);
    return out;
  }

  // Returns the nearest representable value times the block's scale; ties go to the value with an even index.
  Expected evaluate_quantize(NamedIndex position) const {
    const Axis& last = tensor_axes(e_.result).back();
    const DTypeInfo& format = dtype_info(e_.routine->format);
    const std::string along = axis_key(last);
    const std::int64_t index_along = position.at(along), first = index_along - index_along % format.block;
    const double x = read_at(in_[0], position);
    double lowest = 0, highest = 0;  // 0 is one of the values of a block
    for (std::int64_t i = 0; i < format.block; ++i) {
      position[along] = first + i;
      const double value = read_at(in_[0], position);
      if (!std::isfinite(value)) return {.value = std::numeric_limits<double>::quiet_NaN()};
      lowest = std::min(lowest, value);
      highest = std::max(highest, value);
    }
    if (has_integer_blocks(format.dtype)) return evaluate_integer_code(x, lowest, highest);
    const double max_abs = std::max(-lowest, highest), scale = compute_block_scale(format.dtype, max_abs);
    if (scale == 0) return {.value = 0, .scale = 1, .bound = 0x1p-1000};
    const double value =
        std::copysign(nearest_value(representable_values(format.bits), std::fabs(x) / scale), x) * scale;
    Expected out{.value = value, .scale = max_abs, .bound = 0x1p-40 * std::fabs(value)};
    if (format.dtype == DType::nvfp4 && std::fabs(x) > max_nvfp4) out.before_limit = x;
    return out;
  }
  // Returns the value that int4 or u4 stores for x in a block of values between these. The codes of int4 are -8 to 7;
  // those of u4 are 0 to 15, counted from the code of the lowest value.
  Expected evaluate_integer_code(double x, double lowest, double highest) const {
    const bool has_zero = has_zero_points(e_.routine->format);
    const double max_abs = std::max(-lowest, highest),
                 span = static_cast<float>(highest - lowest),  // The format's definition rounds it to f32
        scale = nearest_f16(has_zero ? span / 15 : max_abs / 7);
    if (scale == 0) return {.value = 0, .scale = 1, .bound = 0x1p-1000};
    const double least = has_zero ? -std::min(std::nearbyint(-lowest / scale), 15.0) : -8;
    const double code = std::min(std::max(std::nearbyint(x / scale), least), least + 15), value = code * scale;
    Expected out{.value = value, .scale = max_abs, .bound = 0x1p-40 * std::fabs(value)};
    if (scale == max_f16 && std::fabs(x - value) > scale / 2) out.before_limit = x;
    return out;
  }
  static constexpr double max_f16 = 65504;
  // Returns the nearest f16 of a number that is not negative, ties to even, at most `max_f16`.
  static double nearest_f16(double x) {
    if (x >= max_f16) return max_f16;
    const double unit = x < 0x1p-14 ? 0x1p-24 : std::ldexp(1, std::ilogb(x) - 10);
    return std::min(std::nearbyint(x / unit) * unit, max_f16);
  }
  static constexpr double max_nvfp4 = 448 * 6;  // the largest scale, an e4m3, times the largest element, an e2m1
  // e2m1: 0 0.5 1 1.5 2 3 4 6; e4m3: eighths of powers of two from 2^-6 to 448, and multiples of 2^-9 below.
  static std::vector<double> representable_values(int bits) {
    if (bits == 4) return {0, 0.5, 1, 1.5, 2, 3, 4, 6};
    std::vector<double> out;
    for (int i = 0; i < 8; ++i) out.push_back(i / 512.0);
    for (int e = -6; e <= 8; ++e)
      for (int i = 8; i < (e == 8 ? 15 : 16); ++i) out.push_back(i / 8.0 * std::pow(2.0, e));
    return out;
  }
  static double nearest_value(const std::vector<double>& all, double x) {
    if (x >= all.back()) return all.back();  // far above it, the distances to all values round to the same number
    std::size_t best = 0;
    for (std::size_t i = 1; i < all.size(); ++i) {
      const double now = std::fabs(all[i] - x), before = std::fabs(all[best] - x);
      if (now < before || (now == before && i % 2 == 0)) best = i;
    }
    return all[best];
  }
  static double compute_block_scale(DType format, double max_abs) {
    if (format == DType::e4m3_128) return static_cast<float>(max_abs / 448);
    if (format == DType::nvfp4) return nearest_value(representable_values(8), max_abs / 6);
    const double top = format == DType::mxfp8 ? 256 : 4;
    double scale = std::pow(2.0, -127);
    while (scale * 2 * top <= max_abs && scale < std::pow(2.0, 127)) scale *= 2;
    return scale;
  }

  const Reference& reference_;
  const Expression& e_;
  std::vector<int> in_;
};

}  // namespace

std::vector<Expected> evaluate_routine(const Reference& reference, const Expression& routine,
                                       const std::vector<std::int64_t>& indices) {
  const ElementEvaluator evaluator(reference, routine);
  std::vector<Expected> out(indices.size());
  parallel_for(static_cast<std::int64_t>(indices.size()), 64, reference.threads,
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t i = begin; i < end; ++i) out[i] = evaluator.evaluate_element(indices[i]);
               });
  return out;
}

double estimate_routine_cost(const Reference& reference, const Expression& routine) {
  const auto elements = [&](int tensor) {
    double n = 1;
    for (const Axis& axis : reference.program.tensors[tensor].axes)
      n *= static_cast<double>(axis.is_named() ? reference.dims.at(axis.dim) : axis.literal);
    return n;
  };
  const std::vector<int> in = expression_operands(routine);
  constexpr double lookup_cost = 20;  // nodes per lookup of named dimensions
  switch (routine.routine->kind) {
    case RoutineKind::conv_transpose: {
      const std::size_t at = conv_axes(*routine.routine, reference.program.tensors[in[1]].axes.size()).channels;
      const Axis& made = reference.program.tensors[routine.result].axes[at];
      return lookup_cost * elements(in[1]) /
             static_cast<double>(made.is_named() ? reference.dims.at(made.dim) : made.literal);
    }
    case RoutineKind::conv: {
      const Axis& made = reference.program.tensors[in[1]].axes[0];
      return lookup_cost * elements(in[1]) /
             static_cast<double>(made.is_named() ? reference.dims.at(made.dim) : made.literal);
    }
    case RoutineKind::gather: return lookup_cost;
    case RoutineKind::scatter: return lookup_cost * elements(in[1]);
    case RoutineKind::rotary: return 3 * lookup_cost;
    case RoutineKind::max_pool:
    case RoutineKind::avg_pool:
      return lookup_cost *
             std::pow(static_cast<double>(routine.routine->window), static_cast<double>(routine.routine->over.size()));
    case RoutineKind::topk:
    case RoutineKind::argmax:
    case RoutineKind::sort:
    case RoutineKind::argsort: {
      const Axis& over = routine.routine->over.front();
      const auto n = static_cast<double>(over.is_named() ? reference.dims.at(over.dim) : over.literal);
      return lookup_cost * n;
    }
    case RoutineKind::quantize: return lookup_cost * dtype_info(routine.routine->format).block;
    case RoutineKind::routed:
      return lookup_cost * elements(in[1]) / elements(routine.result) + elements(in[2]) + lookup_cost * elements(in[0]);
    case RoutineKind::cumsum:
    case RoutineKind::scan: break;
  }
  const Axis& over = routine.routine->over.front();
  return lookup_cost * static_cast<double>(over.is_named() ? reference.dims.at(over.dim) : over.literal);
}

}  // namespace ridge
