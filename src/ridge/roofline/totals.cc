#include "ridge/roofline/totals.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "ridge/roofline/sizes/moved_tensors.h"
#include "ridge/roofline/split.h"

namespace ridge {
namespace {

// Returns the sum of the known values, or nullopt if no operation has one.
std::optional<double> sum_field(const std::vector<Prediction>& ops, std::optional<double> Prediction::*field) {
  std::optional<double> total;
  for (const Prediction& op : ops)
    if (op.*field) total = total.value_or(0) + *(op.*field);
  return total;
}

template <class T>
std::optional<T> common_value(const std::vector<Prediction>& ops, std::optional<T> Prediction::*field) {
  for (const Prediction& op : ops)
    if (op.*field != ops.front().*field) return std::nullopt;
  return ops.empty() ? std::nullopt : ops.front().*field;
}

// Adds up times, as the operations run one after another; leaves out what the machine lacks for one of them.
void add_times(Prediction& total, const std::vector<Prediction>& ops) {
  total.peak = common_value(ops, &Prediction::peak);
  total.ridge = common_value(ops, &Prediction::ridge);
  for (const Prediction& op : ops) total.launch_s += op.launch_s;
  for (const Prediction& op : ops)
    if (total.missing.find(op.missing) == std::string::npos)
      total.missing += (total.missing.empty() ? "" : ", ") + op.missing;
  const auto known = [](const Prediction& op) { return op.time_lower_s.has_value(); };
  if (!std::all_of(ops.begin(), ops.end(), known)) return;
  total.time_math_s = sum_field(ops, &Prediction::time_math_s);
  total.time_memory_s = sum_field(ops, &Prediction::time_memory_s);
  total.time_network_s = sum_field(ops, &Prediction::time_network_s);
  total.bytes_sent = sum_field(ops, &Prediction::bytes_sent);
  total.time_lower_s = sum_field(ops, &Prediction::time_lower_s);
  total.time_upper_s = sum_field(ops, &Prediction::time_upper_s);
}

// Returns rate / other as a fraction, marked inexact unless both are whole numbers or equal.
Rational rate_ratio(double rate, double other) {
  const auto is_exact = [](double x) { return x == std::floor(x) && x < 0x1p63; };
  if (!is_exact(rate) || !is_exact(other)) return rate == other ? Rational(1) : Rational(INT64_MAX) * 2;
  return Rational(static_cast<std::int64_t>(rate), static_cast<std::int64_t>(other));
}

// FLOPs of all operations, converted to the first one's peak rate, and the conversion factors.
struct NormalizedWork {
  Polynomial flops;
  double peak = 0;
  std::vector<FlopWeight> weights;
};

// Converts the FLOPs of all units, or of one. Returns nullopt if there are none or the ratio of peaks is no fraction.
std::optional<NormalizedWork> normalize_work(const std::vector<Prediction>& ops, std::optional<ComputeUnit> unit = {}) {
  NormalizedWork out;
  const Peak* first = nullptr;
  for (const Prediction& op : ops) {
    if (op.math_load.is_zero() || !op.peak || op.peak->unit != unit.value_or(op.peak->unit)) continue;
    if (!first) first = &*op.peak;
    const Rational weight = rate_ratio(first->rate.value, op.peak->rate.value);
    out.flops += op.math_load * weight;
    const auto known = [&](const FlopWeight& w) { return w.peak == *op.peak; };
    if (*op.peak != *first && std::none_of(out.weights.begin(), out.weights.end(), known))
      out.weights.push_back({*op.peak, weight.to_double()});
  }
  if (!first || !out.flops.is_exact()) return std::nullopt;
  out.peak = first->rate.value;
  return out;
}

void add_sum_thresholds(Prediction& sum, const std::optional<NormalizedWork>& all, const RooflineContext& context) {
  constexpr std::size_t max_terms = 64;  // Longer formulas are unreadable
  if (!all || all->flops.terms().size() + sum.work.bytes().terms().size() > max_terms) return;
  add_thresholds(sum, all->flops, all->peak, context);
  if (!sum.thresholds.empty()) sum.flop_weights = all->weights;
  for (Threshold& t : sum.thresholds) t.decides_limiter = false;
}

}  // namespace

NormalizedFlops normalize_flops(const std::vector<Prediction>& ops) {
  auto all = normalize_work(ops);
  return all ? NormalizedFlops{std::move(all->flops), all->peak} : NormalizedFlops{};
}

namespace {

// Returns the compute roof. Its exact count breaks ties; it is 0 if the FLOPs cannot be normalized.
Roof compute_roof(const std::optional<NormalizedWork>& work, double time) {
  return {Limiter::compute, work ? work->flops : Polynomial(), work ? work->peak : 1, time};
}

void add_launch_roof(std::vector<Roof>& roofs, const Prediction& p) {
  if (p.launch_s > 0) roofs.push_back({Limiter::overhead, 1, 1 / p.launch_s, p.launch_s});
}

// The limiter of a sum is the roof with the largest sum of times.
Status set_sum_limiters(Prediction& total, const std::vector<Prediction>& ops, const RooflineContext& context) {
  std::vector<Roof> roofs;
  if (total.time_math_s) roofs.push_back(compute_roof(normalize_work(ops), *total.time_math_s));
  roofs.push_back({Limiter::memory, total.work.bytes(), context.bandwidth, *total.time_memory_s});
  if (total.time_network_s)
    roofs.push_back({Limiter::network, total.work.link_load, *total.link_rate, *total.time_network_s});
  add_launch_roof(roofs, total);
  return set_limiters(total, std::move(roofs), context);
}

}  // namespace

Result<Prediction> sum_operations(const std::vector<Prediction>& ops, const RooflineContext& context) {
  Prediction total{.work = {.name = "total"}};
  total.bandwidth = context.bandwidth;
  const auto integer = [](const Prediction& op) { return dtype_info(op.work.math).is_integer; };
  if (!ops.empty() && std::all_of(ops.begin(), ops.end(), integer)) total.work.math = ops.front().work.math;
  for (const Prediction& op : ops) {
    total.work.flops += op.work.flops;
    total.math_load += op.math_load;
    add_calls(total.work.calls, op.work.calls);
    total.work.flops_without_masks += get_flops_without_masks(op.work);
    total.work.bytes_in += op.work.bytes_in;
    total.work.bytes_out += op.work.bytes_out;
    total.work.bytes_sent += op.work.bytes_sent;
    total.work.link_load += op.work.link_load;
    if (op.link_rate) total.link_rate = op.link_rate;
  }
  if (total.work.flops_without_masks == total.work.flops) total.work.flops_without_masks = Polynomial();
  const Polynomial moved = total.work.bytes();
  RIDGE_TRY(flops, evaluate_count(total.work.flops, context.dims));
  RIDGE_TRY(bytes, evaluate_count(moved, context.dims));
  total.flops = flops;
  total.bytes = bytes;
  if (context.formulas)
    total.intensity_formula = format_intensity(cancel_common_factor(total.work.flops, moved), context.order);
  if (total.flops && total.bytes && *total.bytes > 0)
    total.intensity = static_cast<double>(*total.flops) / moved.evaluate_double(context.sizes);
  add_times(total, ops);
  if (ops.size() == 1)
    total.thresholds = ops.front().thresholds;
  else
    add_sum_thresholds(total, normalize_work(ops), context);
  if (!total.time_lower_s || ops.empty()) return total;
  RIDGE_TRY_STATUS(set_sum_limiters(total, ops, context));
  return total;
}

namespace {

// Operations of one unit, executed one after another.
struct UnitWork {
  ComputeUnit unit;
  double time = 0;  // Seconds; 0 if a dimension has no value
  std::optional<NormalizedWork> normalized;
};

std::vector<UnitWork> split_by_unit(const std::vector<Prediction>& ops) {
  std::vector<UnitWork> out;
  for (const ComputeUnit unit : {ComputeUnit::matrix, ComputeUnit::vector}) {
    UnitWork unit_work{unit, 0, normalize_work(ops, unit)};
    for (const Prediction& op : ops)
      if (op.peak && op.peak->unit == unit) unit_work.time += op.time_math_s.value_or(0);
    if (unit_work.normalized || unit_work.time > 0) out.push_back(std::move(unit_work));
  }
  return out;
}

// Returns the longest operation of the unit that computes longest.
const Prediction& find_decisive_operation(const std::vector<Prediction>& ops) {
  std::map<ComputeUnit, double> seconds;
  for (const Prediction& op : ops)
    if (op.peak) seconds[op.peak->unit] += op.time_math_s.value_or(0);
  const auto rank = [&](const Prediction& op) {
    return std::pair(op.peak ? seconds[op.peak->unit] : -1, op.time_math_s.value_or(0));
  };
  return *std::ranges::max_element(ops, {}, rank);
}

// Returns the limit that holds where one of two does, or nullopt if there is no single one.
std::optional<Threshold> merge_limits(const Threshold& a, const Threshold& b) {
  if (!a.value || !b.value) return std::nullopt;
  if (a.relation != b.relation) {
    const bool a_first = a.relation == Relation::at_most;
    const std::int64_t last = a_first ? *a.value : *b.value, first = a_first ? *b.value : *a.value;
    if (last + 1 < first) return std::nullopt;
    return Threshold{.dim = a.dim, .relation = Relation::always, .roofs = a.roofs, .unit = {}};
  }
  const bool first = a.relation == Relation::at_least ? *a.value <= *b.value : *a.value >= *b.value;
  return first ? a : b;
}

bool is_only(Relation relation, const std::vector<Threshold>& all) {
  return all.size() == 1 && all.front().relation == relation;
}

// Returns the thresholds of one dimension from which at least one of two concurrent units limits; those of both units
// if they cannot be merged. If neither unit ever limits, the threshold is that of compute as a whole.
std::vector<Threshold> merge_units(std::vector<Threshold> first, std::vector<Threshold> second) {
  if (is_only(Relation::never, first) && is_only(Relation::never, second)) {
    first.front().unit.clear();
    return first;
  }
  if (second.empty() || is_only(Relation::never, second) || is_only(Relation::always, first)) return first;
  if (first.empty() || is_only(Relation::never, first) || is_only(Relation::always, second)) return second;
  if (first.size() == 1 && second.size() == 1)
    if (auto one = merge_limits(first.front(), second.front())) return {*std::move(one)};
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

// Adds the thresholds of each unit; merges those of two units if possible.
void add_unit_thresholds(Prediction& fused, const std::vector<UnitWork>& units, const RooflineContext& context) {
  if (units.empty()) return;
  add_sum_thresholds(fused, units.front().normalized, context);
  if (units.size() == 1) return;
  Prediction second = fused;
  second.thresholds.clear();
  second.flop_weights.clear();
  add_sum_thresholds(second, units.back().normalized, context);
  fused.flop_weights.insert(fused.flop_weights.end(), second.flop_weights.begin(), second.flop_weights.end());
  std::erase_if(second.thresholds, [](const Threshold& t) { return t.roofs[0] != Limiter::compute; });
  for (Threshold& t : second.thresholds) t.unit = unit_name(units.back().unit);
  for (Threshold& t : fused.thresholds)
    if (t.roofs[0] == Limiter::compute) t.unit = unit_name(units.front().unit);
  std::vector<Threshold> merged, left = std::move(fused.thresholds);
  left.insert(left.end(), second.thresholds.begin(), second.thresholds.end());
  while (!left.empty()) {
    const auto is_same = [key = left.front()](const Threshold& t) { return t.dim == key.dim && t.roofs == key.roofs; };
    std::vector<Threshold> of_unit[2];
    for (const Threshold& t : left)
      if (is_same(t)) of_unit[t.unit == unit_name(units.back().unit)].push_back(t);
    std::ranges::copy(merge_units(std::move(of_unit[0]), std::move(of_unit[1])), std::back_inserter(merged));
    std::erase_if(left, is_same);
  }
  fused.thresholds = std::move(merged);
}

// Predicts operations as one kernel. The units compute concurrently, each runs its operations one after another,
// transfers run one after another, and only the bytes in `work` are moved.
Result<Prediction> predict_kernel(Work work, const std::vector<Prediction>& ops, const Prediction& total,
                                  const RooflineContext& context) {
  Prediction fused{.work = std::move(work)};
  const Polynomial formula = fused.work.bytes();
  fused.work.math = total.work.math;
  fused.flops = total.flops;
  fused.math_load = total.math_load;
  RIDGE_TRY(bytes, evaluate_count(formula, context.dims));
  fused.bytes = bytes;
  fused.bandwidth = context.bandwidth;
  fused.link_rate = total.link_rate;
  fused.peak = total.peak;
  fused.ridge = total.ridge;
  fused.missing = total.missing;
  fused.launch_s = context.launch_s;
  if (context.formulas)
    fused.intensity_formula = format_intensity(cancel_common_factor(fused.work.flops, formula), context.order);
  const std::vector<UnitWork> units = split_by_unit(ops);
  add_unit_thresholds(fused, units, context);
  if (!fused.flops || !fused.bytes) return fused;
  const double moved = formula.evaluate_double(context.sizes);
  fused.intensity = static_cast<double>(*fused.flops) / moved;
  fused.time_memory_s = moved / context.bandwidth;
  fused.time_network_s = total.time_network_s;
  fused.bytes_sent = total.bytes_sent;
  fused.time_math_s = total.time_math_s;
  std::vector<Roof> roofs;
  for (const UnitWork& unit : units) roofs.push_back(compute_roof(unit.normalized, unit.time));
  roofs.push_back({Limiter::memory, formula, context.bandwidth, *fused.time_memory_s});
  if (fused.time_network_s)
    roofs.push_back({Limiter::network, fused.work.link_load, *fused.link_rate, *fused.time_network_s});
  add_launch_roof(roofs, fused);
  double longest = 0;
  for (const Roof& roof : roofs) longest = std::max(longest, roof.time_s);
  fused.time_lower_s = longest;
  fused.time_upper_s =
      std::max(longest, fused.time_math_s.value_or(0) + *fused.time_memory_s + fused.time_network_s.value_or(0));
  RIDGE_TRY_STATUS(set_limiters(fused, std::move(roofs), context));
  return fused;
}

}  // namespace

Result<std::optional<Prediction>> predict_fused(const Program& program, const std::vector<Work>& work,
                                                const Explanation& unfused, const RooflineContext& context) {
  if (!reads_results(program)) return std::optional<Prediction>();
  RIDGE_TRY(fused, predict_kernel(count_fused(program, work, context.dims), unfused.ops, unfused.total, context));
  return std::optional(std::move(fused));
}

namespace {

// Work of the statements of a program on one chip.
struct ChipWork {
  const Program& program;
  const std::vector<Work>& work;
  const std::vector<Prediction>& statements;
};

Result<std::vector<Prediction>> predict_each_group(const ChipWork& chip, const KernelGroups& groups,
                                                   const std::vector<int>& stored, const RooflineContext& context) {
  std::vector<Prediction> out;
  for (const std::vector<int>& group : groups) {
    std::vector<Prediction> parts;
    for (const int s : group) parts.push_back(chip.statements[s]);
    if (parts.size() == 1) {
      out.push_back(std::move(parts[0]));
      continue;
    }
    RIDGE_TRY(total, sum_operations(parts, context));
    Work work = count_fused(chip.program, chip.work, context.dims, group, stored, groups);
    work.name = parts.back().work.name;
    for (const Prediction& part : parts) {
      work.text += (work.text.empty() ? "" : "; ") + part.work.text;
      work.contraction |= part.work.contraction;
    }
    RIDGE_TRY(one, predict_kernel(std::move(work), parts, total, context));
    if (!one.peak) {  // several units
      const Prediction& decisive = find_decisive_operation(parts);
      one.peak = decisive.peak;
      one.ridge = decisive.ridge;
    }
    out.push_back(std::move(one));
  }
  return out;
}

}  // namespace

Result<RooflineContext> make_kernel_context(const CountedProgram& counted, const Machine& machine) {
  RIDGE_TRY(bandwidth, machine.memory_bandwidth());
  RooflineContext context{machine, bandwidth.value, counted.dims, counted.dim_names};
  context.sizes = {context.dims.begin(), context.dims.end()};
  context.launch_s = launch_seconds(machine);
  context.thresholds = context.formulas = false;
  return context;
}

Result<std::vector<Prediction>> predict_kernels(const Program& program, const CountedProgram& counted,
                                                const std::vector<Prediction>& statements, const Machine& machine,
                                                const KernelGroups& groups) {
  RIDGE_TRY(context, make_kernel_context(counted, machine));
  return predict_each_group({program, counted.work, statements}, groups, {}, context);
}

Result<Explanation> predict_groups(const Program& program, const Explanation& unfused,
                                   const std::vector<std::vector<int>>& groups, const std::vector<int>& stored) {
  RIDGE_TRY(bandwidth, unfused.machine.memory_bandwidth());
  RooflineContext context{unfused.machine, bandwidth.value, unfused.dims, unfused.dim_names};
  if (unfused.split) context.dims[split_axis] = unfused.split->chips;
  context.sizes = {context.dims.begin(), context.dims.end()};
  context.launch_s = launch_seconds(unfused.machine);
  context.thresholds = false;
  const Program sharded_program = unfused.split ? shard_program(program, *unfused.split) : Program();
  const Program& device_program = unfused.split ? sharded_program : program;
  std::vector<Work> all;
  for (const Prediction& op : unfused.ops) all.push_back(op.work);
  Explanation out = unfused;
  RIDGE_TRY(kernels, predict_each_group({device_program, all, unfused.ops}, groups, stored, context));
  out.ops = std::move(kernels);
  RIDGE_TRY(total, sum_operations(out.ops, context));
  out.total = std::move(total);
  return out;
}

}  // namespace ridge
