#include "ridge/roofline/sums.h"

#include <algorithm>
#include <cmath>

#include "ridge/roofline/split.h"

namespace ridge {
namespace {

// Of those that are known; none: no operation has it.
std::optional<double> sum(const std::vector<Prediction>& ops, std::optional<double> Prediction::*field) {
  std::optional<double> total;
  for (const Prediction& op : ops)
    if (op.*field) total = total.value_or(0) + *(op.*field);
  return total;
}

template <class T> std::optional<T> shared(const std::vector<Prediction>& ops, std::optional<T> Prediction::*field) {
  for (const Prediction& op : ops)
    if (op.*field != ops.front().*field) return std::nullopt;
  return ops.empty() ? std::nullopt : ops.front().*field;
}

// The operations run one after the other, so times add up; what the machine lacks for one of them is left out.
void add_times(Prediction& total, const std::vector<Prediction>& ops) {
  total.peak = shared(ops, &Prediction::peak);
  total.ridge = shared(ops, &Prediction::ridge);
  for (const Prediction& op : ops) total.launch_s += op.launch_s;
  for (const Prediction& op : ops)
    if (total.missing.find(op.missing) == std::string::npos)
      total.missing += (total.missing.empty() ? "" : ", ") + op.missing;
  const auto known = [](const Prediction& op) { return op.time_lower_s.has_value(); };
  if (!std::all_of(ops.begin(), ops.end(), known)) return;
  total.time_math_s = sum(ops, &Prediction::time_math_s);
  total.time_memory_s = sum(ops, &Prediction::time_memory_s);
  total.time_network_s = sum(ops, &Prediction::time_network_s);
  total.bytes_sent = sum(ops, &Prediction::bytes_sent);
  total.time_lower_s = sum(ops, &Prediction::time_lower_s);
  total.time_upper_s = sum(ops, &Prediction::time_upper_s);
}

// One rate over another as a fraction; not exact where one is no whole number.
Rational over(double rate, double other) {
  const auto whole = [](double x) { return x == std::floor(x) && x < 0x1p63; };
  if (!whole(rate) || !whole(other)) return rate == other ? Rational(1) : Rational(INT64_MAX) * 2;
  return Rational(static_cast<std::int64_t>(rate), static_cast<std::int64_t>(other));
}

// The operations' FLOPs as if all of them ran at the first one's peak.
struct Weighed {
  Polynomial flops;
  double peak = 0;
  std::vector<Weight> weights;
};

// Of all units, or of one. None: nothing is computed there, or one peak over another is no fraction of whole numbers.
std::optional<Weighed> weighed(const std::vector<Prediction>& ops, std::optional<Unit> unit = {}) {
  Weighed out;
  const Peak* first = nullptr;
  for (const Prediction& op : ops) {
    if (op.work.flops.zero() || !op.peak || op.peak->unit != unit.value_or(op.peak->unit)) continue;
    if (!first) first = &*op.peak;
    const Rational weight = over(first->rate.value, op.peak->rate.value);
    out.flops += op.work.flops * weight;
    const auto known = [&](const Weight& w) { return w.peak == *op.peak; };
    if (*op.peak != *first && std::none_of(out.weights.begin(), out.weights.end(), known))
      out.weights.push_back({*op.peak, weight.real()});
  }
  if (!first || !out.flops.exact()) return std::nullopt;
  out.peak = first->rate.value;
  return out;
}

void add_sum_thresholds(Prediction& sum, const std::optional<Weighed>& all, const Setting& setting) {
  constexpr std::size_t most_terms = 64;  // nobody reads more
  if (!all || all->flops.terms().size() + sum.work.bytes().terms().size() > most_terms) return;
  add_thresholds(sum, all->flops, all->peak, setting);
  if (!sum.thresholds.empty()) sum.weights = all->weights;
}

}  // namespace

WeighedFlops weighed_flops(const std::vector<Prediction>& ops) {
  auto all = weighed(ops);
  return all ? WeighedFlops{std::move(all->flops), all->peak} : WeighedFlops{};
}

namespace {

// Times that are equal to the last digit are told apart where the FLOPs can be weighed.
Roof computing(const std::optional<Weighed>& work, double time) {
  return {Limiter::compute, work ? work->flops : Polynomial(), work ? work->peak : 1, time};
}

void add_launch(std::vector<Roof>& roofs, const Prediction& p) {
  if (p.launch_s > 0) roofs.push_back({Limiter::overhead, 1, 1 / p.launch_s, p.launch_s});
}

// The limiter of a sum is what has the largest sum of times.
Status limit_sum(Prediction& total, const std::vector<Prediction>& ops, const Setting& setting) {
  std::vector<Roof> roofs;
  if (total.time_math_s) roofs.push_back(computing(weighed(ops), *total.time_math_s));
  roofs.push_back({Limiter::memory, total.work.bytes(), setting.bandwidth, *total.time_memory_s});
  if (total.time_network_s) roofs.push_back({Limiter::network, total.work.load, *total.link, *total.time_network_s});
  add_launch(roofs, total);
  return limited(total, std::move(roofs), setting);
}

}  // namespace

Result<Prediction> total_of(const std::vector<Prediction>& ops, const Setting& setting) {
  Prediction total{.work = {.name = "total"}};
  total.bandwidth = setting.bandwidth;
  const auto integer = [](const Prediction& op) { return info(op.work.math).integer; };
  if (!ops.empty() && std::all_of(ops.begin(), ops.end(), integer)) total.work.math = ops.front().work.math;
  for (const Prediction& op : ops) {
    total.work.flops += op.work.flops;
    total.work.unmasked += every_flop(op.work);
    total.work.bytes_in += op.work.bytes_in;
    total.work.bytes_out += op.work.bytes_out;
    total.work.bytes_sent += op.work.bytes_sent;
    total.work.load += op.work.load;
    if (op.link) total.link = op.link;
  }
  if (total.work.unmasked == total.work.flops) total.work.unmasked = Polynomial();
  const Polynomial moved = total.work.bytes();
  const auto flops = number(total.work.flops, setting.dims), bytes = number(moved, setting.dims);
  if (!flops) return flops.error();
  if (!bytes) return bytes.error();
  total.flops = *flops;
  total.bytes = *bytes;
  total.intensity_formula = intensity_formula(reduced(total.work.flops, moved), setting.order);
  if (total.flops && total.bytes && *total.bytes > 0)
    total.intensity = static_cast<double>(*total.flops) / moved.real(setting.sizes);
  add_times(total, ops);
  if (ops.size() == 1)
    total.thresholds = ops.front().thresholds;
  else
    add_sum_thresholds(total, weighed(ops), setting);
  if (!total.time_lower_s || ops.empty()) return total;
  if (const Status judged = limit_sum(total, ops, setting); !judged) return judged.error();
  return total;
}

namespace {

// What one unit computes of several operations, one after the other.
struct UnitWork {
  Unit unit;
  double time = 0;  // s; 0 where a dimension has no value
  std::optional<Weighed> weighed;
};

std::vector<UnitWork> unit_work(const std::vector<Prediction>& ops) {
  std::vector<UnitWork> out;
  for (const Unit unit : {Unit::matrix, Unit::vector}) {
    UnitWork here{unit, 0, weighed(ops, unit)};
    for (const Prediction& op : ops)
      if (op.peak && op.peak->unit == unit) here.time += op.time_math_s.value_or(0);
    if (here.weighed || here.time > 0) out.push_back(std::move(here));
  }
  return out;
}

// Of two units that compute at once the one that takes longer is above the other roof. None: each is said by itself.
std::optional<Threshold> either(const Threshold& a, const Threshold& b) {
  if (a.relation == Relation::never || b.relation == Relation::always) return b;
  if (b.relation == Relation::never || a.relation == Relation::always) return a;
  if (a.relation != b.relation || !a.value || !b.value) return std::nullopt;
  const bool first = a.relation == Relation::at_least ? *a.value <= *b.value : *a.value >= *b.value;
  return first ? a : b;
}

// Where there are two units, what each of them says of a dimension becomes one answer, if it can.
void add_unit_thresholds(Prediction& fused, const std::vector<UnitWork>& units, const Setting& setting) {
  if (units.empty()) return;
  add_sum_thresholds(fused, units.front().weighed, setting);
  if (units.size() == 1) return;
  Prediction second = fused;
  second.thresholds.clear();
  second.weights.clear();
  add_sum_thresholds(second, units.back().weighed, setting);
  fused.weights.insert(fused.weights.end(), second.weights.begin(), second.weights.end());
  for (Threshold& t : fused.thresholds)
    if (t.roofs[0] == Limiter::compute) t.unit = name(units.front().unit);
  for (Threshold& other : second.thresholds) {
    if (other.roofs[0] != Limiter::compute) continue;
    other.unit = name(units.back().unit);
    const auto same = std::find_if(fused.thresholds.begin(), fused.thresholds.end(), [&](const Threshold& t) {
      return t.dim == other.dim && t.roofs == other.roofs && t.unit != other.unit;
    });
    const auto one = same == fused.thresholds.end() ? std::nullopt : either(*same, other);
    if (one)
      *same = *one;
    else
      fused.thresholds.push_back(std::move(other));
  }
}

// Operations as one kernel: units compute at once, each its share one after the other; what they send one after the
// other, and only what `work` says moved.
Result<Prediction> as_one(Work work, const std::vector<Prediction>& ops, const Prediction& total,
                          const Setting& setting) {
  Prediction fused{.work = std::move(work)};
  const Polynomial formula = fused.work.bytes();
  fused.work.math = total.work.math;
  fused.flops = total.flops;
  const auto bytes = number(formula, setting.dims);
  if (!bytes) return bytes.error();
  fused.bytes = *bytes;
  fused.bandwidth = setting.bandwidth;
  fused.link = total.link;
  fused.peak = total.peak;
  fused.ridge = total.ridge;
  fused.missing = total.missing;
  fused.launch_s = setting.launch_s;
  fused.intensity_formula = intensity_formula(reduced(fused.work.flops, formula), setting.order);
  const std::vector<UnitWork> units = unit_work(ops);
  add_unit_thresholds(fused, units, setting);
  if (!fused.flops || !fused.bytes) return fused;
  const double moved = formula.real(setting.sizes);
  fused.intensity = static_cast<double>(*fused.flops) / moved;
  fused.time_memory_s = moved / setting.bandwidth;
  fused.time_network_s = total.time_network_s;
  fused.bytes_sent = total.bytes_sent;
  fused.time_math_s = total.time_math_s;
  std::vector<Roof> roofs;
  for (const UnitWork& unit : units) roofs.push_back(computing(unit.weighed, unit.time));
  roofs.push_back({Limiter::memory, formula, setting.bandwidth, *fused.time_memory_s});
  if (fused.time_network_s) roofs.push_back({Limiter::network, fused.work.load, *fused.link, *fused.time_network_s});
  add_launch(roofs, fused);
  double longest = 0;
  for (const Roof& roof : roofs) longest = std::max(longest, roof.time);
  fused.time_lower_s = longest;
  fused.time_upper_s =
      std::max(longest, fused.time_math_s.value_or(0) + *fused.time_memory_s + fused.time_network_s.value_or(0));
  if (const Status judged = limited(fused, std::move(roofs), setting); !judged) return judged.error();
  return fused;
}

}  // namespace

Result<std::optional<Prediction>> fused_of(const Program& program, const std::vector<Work>& work,
                                           const Explanation& apart, const Setting& setting) {
  const auto inside = [](const Tensor& t) { return t.role == Role::intermediate; };
  if (std::none_of(program.tensors.begin(), program.tensors.end(), inside)) return std::optional<Prediction>();
  auto fused = as_one(count_fused(program, work, setting.dims), apart.ops, apart.total, setting);
  if (!fused) return fused.error();
  return std::optional(*std::move(fused));
}

Result<Explanation> grouped(const Program& program, const Explanation& apart,
                            const std::vector<std::vector<int>>& groups, const std::vector<int>& stored) {
  const auto bandwidth = apart.machine.bandwidth();
  if (!bandwidth) return bandwidth.error();
  Setting setting{apart.machine, bandwidth->value, apart.dims, apart.dim_names};
  if (apart.split) setting.dims[split_axis] = apart.split->chips;
  setting.sizes = {setting.dims.begin(), setting.dims.end()};
  setting.launch_s = launch_s(apart.machine);
  setting.thresholds = false;
  const Program cut = apart.split ? sharded(program, *apart.split) : Program();
  const Program& lies = apart.split ? cut : program;
  std::vector<Work> all;
  for (const Prediction& op : apart.ops) all.push_back(op.work);
  Explanation out = apart;
  out.ops.clear();
  for (const std::vector<int>& group : groups) {
    std::vector<Prediction> parts;
    for (const int s : group) parts.push_back(apart.ops[static_cast<std::size_t>(s)]);
    if (parts.size() == 1) {
      out.ops.push_back(std::move(parts[0]));
      continue;
    }
    const auto total = total_of(parts, setting);
    if (!total) return total.error();
    Work work = count_fused(lies, all, setting.dims, group, stored, groups);
    work.name = parts.back().work.name;
    for (const Prediction& part : parts) {
      work.text += (work.text.empty() ? "" : "; ") + part.work.text;
      work.contraction |= part.work.contraction;
    }
    auto one = as_one(std::move(work), parts, *total, setting);
    if (!one) return one.error();
    if (!one->peak) {  // of several, that of the part which computes longest
      const auto longest = std::max_element(parts.begin(), parts.end(), [](const Prediction& x, const Prediction& y) {
        return x.time_math_s.value_or(0) < y.time_math_s.value_or(0);
      });
      one->peak = longest->peak;
      one->ridge = longest->ridge;
    }
    out.ops.push_back(*std::move(one));
  }
  auto total = total_of(out.ops, setting);
  if (!total) return total.error();
  out.total = *std::move(total);
  return out;
}

}  // namespace ridge
