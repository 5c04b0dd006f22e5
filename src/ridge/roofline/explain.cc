// Compares each operation with the roofs of a machine: T_math = FLOPs/peak, T_memory = bytes/bandwidth. The time is the
// larger of them if computing and moving overlap perfectly, and their sum if they do not overlap. 1e12 FLOP and 1e9 B
// at 9.89e14 FLOP/s and 1e10 B/s take 1.01 ms and 0.1 s: between 0.1 s and 0.10101 s, limited by memory.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>

#include "ridge/base/check.h"
#include "ridge/base/contains.h"
#include "ridge/machine/function_costs.h"
#include "ridge/program/tokenizer.h"
#include "ridge/roofline/routines/routings.h"
#include "ridge/roofline/routines/windows.h"
#include "ridge/roofline/sending/torus.h"
#include "ridge/roofline/sizes/compute_bound_products.h"
#include "ridge/roofline/sizes/rebinding.h"
#include "ridge/roofline/totals.h"

namespace ridge {
namespace {

struct PeakLookup {
  std::optional<Peak> peak;
  std::string missing = {};
};

// A machine file may lack the peak of the vector unit. Work without FLOPs needs no peak.
Result<PeakLookup> find_peak(const Work& work, const Machine& machine) {
  if (work.contraction) {
    const auto peak = machine.contraction_peak(work.math);
    if (peak) return PeakLookup{**peak};
    if (work.math != DType::f32) return peak.error();
  } else if (const Peak* peak = machine.pointwise_peak(work.math)) {
    return PeakLookup{*peak};
  }
  const std::string missing = fmt::format("vector {} peak of {}", dtype_name(work.math), machine.name);
  return PeakLookup{std::nullopt, work.flops.is_zero() ? "" : missing};
}

// Returns the known roofs: compute, memory, network, launch. The first of equal times becomes the limiter.
std::vector<Roof> list_roofs(const Prediction& p, const Polynomial& bytes, const RooflineContext& context) {
  std::vector<Roof> roofs;
  if (p.peak && p.time_math_s) roofs.push_back({Limiter::compute, p.math_load, p.peak->rate.value, *p.time_math_s});
  roofs.push_back({Limiter::memory, bytes, context.bandwidth, *p.time_memory_s});
  if (p.time_network_s) roofs.push_back({Limiter::network, p.work.link_load, *p.link_rate, *p.time_network_s});
  if (p.launch_s > 0) roofs.push_back({Limiter::overhead, 1, 1 / p.launch_s, p.launch_s});
  return roofs;
}

Status estimate_times(Prediction& p, const Polynomial& bytes_formula, const RooflineContext& context) {
  const double bytes =
      bytes_formula.evaluate_double(context.sizes);  // Not rounded up as *p.bytes is: int4 may give half bytes
  p.intensity = static_cast<double>(*p.flops) / bytes;
  p.time_memory_s = bytes / context.bandwidth;
  if (p.link_rate) {
    p.bytes_sent = p.work.bytes_sent.evaluate_double(context.sizes);
    p.time_network_s = network_seconds(p.work, context.sizes);
  }
  if (p.peak) {
    RIDGE_TRY(math_load, evaluate_count(p.math_load, context.dims));
    RIDGE_CHECK(math_load, p.math_load.to_string());
    p.time_math_s = static_cast<double>(*math_load) / p.peak->rate.value;
  }
  if (p.missing.empty() && !p.peak) p.time_math_s = 0;
  const double math = p.time_math_s.value_or(0), network = p.time_network_s.value_or(0);
  p.time_lower_s = std::max({math, *p.time_memory_s, network, p.launch_s});
  p.time_upper_s = std::max(math + *p.time_memory_s + network, p.launch_s);
  return set_limiters(p, list_roofs(p, bytes_formula, context), context);
}

}  // namespace

Result<Prediction> predict_operation(const Work& work, const RooflineContext& context) {
  Prediction p{.work = work};
  const Polynomial bytes_formula = work.bytes();
  RIDGE_TRY(flops, evaluate_count(work.flops, context.dims));
  RIDGE_TRY(bytes, evaluate_count(bytes_formula, context.dims));
  RIDGE_TRY(peak, find_peak(work, context.machine));
  p.flops = flops;
  p.bytes = bytes;
  p.peak = peak.peak;
  p.missing = peak.missing;
  p.bandwidth = context.bandwidth;
  p.launch_s = context.launch_s;
  if (!work.bytes_sent.is_zero()) p.link_rate = context.link_rate;
  if (context.formulas)
    p.intensity_formula = format_intensity(cancel_common_factor(work.flops, bytes_formula), context.order);
  if (p.peak) p.ridge = p.peak->rate.value / context.bandwidth;
  p.math_load = compute_math_load(work, context.machine);
  add_thresholds(p, p.math_load, p.peak ? p.peak->rate.value : 0, context);
  if (p.flops && p.bytes) {
    RIDGE_TRY_STATUS(estimate_times(p, bytes_formula, context));
  }
  return p;
}

namespace {

Status check_mesh_sizes(const Program& program, const Bindings& dims) {
  for (const MeshAxis& axis : program.mesh)
    if (!dims.contains(axis.name))
      return input_error(
          fmt::format("mesh axis {} has no size; expected one to count what each device does", axis.name),
          fmt::format("-d {0}=4, or a line mesh {0} = 4", axis.name));
  return Done{};
}

// Adds the position of the statement to an error.
Error add_statement_position(Error error, const Program& program, const Statement& statement) {
  if (!error.source.empty() || statement.span.line <= 0) return error;
  const Error at =
      program::SourceText{program.text, program.source}.error_at(statement.span, error.message, error.hint);
  error.source = at.source;
  error.span = at.span;
  error.line_text = at.line_text;
  return error;
}

constexpr const char* large_factor_symbol = "2^20";  // Symbol of value 2^20; factors of it represent counts beyond 2^63

Result<Polynomial> make_count(double count, std::string_view unit, double min_count) {
  if (!std::isfinite(count) || count < min_count || count != std::floor(count))
    return usage_error(fmt::format("expected a whole number of {} of at least {}, found {}", unit, min_count, count));
  if (count > 1e38)
    return input_error(fmt::format("expected a count below 10^38, found {} {}", count, unit), "use smaller sizes");
  std::vector<std::string> factors;
  for (; count >= 0x1p63; count /= 0x1p20) factors.emplace_back(large_factor_symbol);
  return Polynomial::make_term(static_cast<std::int64_t>(count), factors);
}

std::size_t estimate_threshold_work(const std::vector<Work>& work) {
  std::size_t sum = 0;
  for (const Work& one : work) {
    const std::size_t dims = std::max(one.flops.symbols().size(), one.bytes().symbols().size());
    sum += dims * dims;
  }
  return sum;
}

void list_derived_sizes(Explanation& out, const Program& program, const DerivedSizeMap& derived_sizes) {
  const auto is_derived = [&](const std::string& name) {
    for (const auto& [dim, derived] : derived_sizes)
      for (const auto& size : derived.sizes)
        if (size.first == name) return true;
    return false;
  };
  for (const Dimension& dim : program.dims) {
    if (is_derived(dim.name))
      out.derived.push_back(fmt::format("{} = {}", dim.name, dim.value->to_string(out.dim_names)));
  }
}

// Returns the dimensions of operations with a peak, direct or through derived sizes, that have no threshold.
std::vector<std::string> dims_without_threshold(const Explanation& e, const DerivedSizeMap& derived_sizes) {
  std::set<std::string> found;
  for (const Prediction& p : e.ops) {
    if (!p.peak) continue;
    std::set<std::string> solved, present;
    for (const Threshold& t : p.thresholds) solved.insert(t.dim);
    for (std::string& dim : p.work.bytes().symbols()) present.insert(std::move(dim));
    for (const auto& [dim, derived] : derived_sizes)
      for (const auto& size : derived.sizes)
        if (present.contains(size.first)) present.insert(dim);
    std::set_difference(present.begin(), present.end(), solved.begin(), solved.end(),
                        std::inserter(found, found.end()));
  }
  std::vector<std::string> out;
  for (const std::string& dim : e.dim_names)
    if (found.contains(dim)) out.push_back(dim);
  return out;
}

// Replaces the symbol of a mask in all counts.
void substitute(std::vector<Work>& work, const std::string& symbol, const Polynomial& by) {
  for (Work& one : work) {
    one.flops = one.flops.substitute(symbol, by);
    one.bytes_in = one.bytes_in.substitute(symbol, by);
    for (FunctionCalls& calls : one.calls) calls.count = calls.count.substitute(symbol, by);
    for (TensorRead& read : one.reads) {
      read.amount = read.amount.substitute(symbol, by);
      if (read.by_all_readers) read.by_all_readers = read.by_all_readers->substitute(symbol, by);
    }
  }
}

// Returns the tuples of a mask's dimensions as if it excluded none, on the device with the largest shards.
Polynomial count_all_tuples(const IndexMask& mask, const Bindings& sizes) {
  Polynomial out = 1;
  for (const std::string& dim : counted_dims(mask)) {
    std::int64_t shards = 1;
    if (mask.region && mask.region->mesh.contains(dim))
      for (const char letter : mask.region->mesh.at(dim))
        if (const auto size = sizes.find(std::string(1, letter)); size != sizes.end()) shards *= size->second;
    const std::string largest = fmt::format("ceil({}/{})", dim, shards);
    out = out * (sizes.contains(largest) ? Polynomial::make_symbol(largest)
                                         : Polynomial::make_term(Rational(1, shards), {dim}));
  }
  return out;
}

// Counts the tuples of a mask. If that takes too many steps at these sizes, all tuples are counted, and a sentence says
// so.
MaskCount count_index_mask(const IndexMask& mask, const Program& program, const Bindings& given,
                           std::vector<Work>& work, RooflineContext& context) {
  const std::vector<std::string> dims = counted_dims(mask);
  const Polynomial all = count_all_tuples(mask, context.dims);
  MaskCount out{mask, Polynomial::make_symbol(mask.symbol), all, count_unmasked(mask, context.dims), {}};
  if (all.has_all_values(context.dims))
    if (const auto value = all.evaluate(context.dims); value) out.all_count = *value;
  if (auto form = mask_closed_form(mask, program, given)) {
    if (*form == Polynomial::make_term(1, dims)) form = all;
    out.unmasked = *form;
    substitute(work, mask.symbol, *form);
    if (dims.size() == 2 && *form != all) context.tied_dims.push_back(form->degree_in(dims[0]) > 0 ? dims[1] : dims[0]);
    return out;
  }
  if (mask.region && !mask.region->mesh.empty()) out.on_all_devices = count_on_all_devices(*mask.region, context.dims);
  const std::vector<std::string> symbols = dependency_dims(mask);
  const bool has_sizes =
      std::all_of(symbols.begin(), symbols.end(), [&](const std::string& s) { return context.dims.contains(s); });
  out.is_irregular = has_sizes && !out.unmasked_count && out.all_count;
  if (out.is_irregular) out.unmasked_count = out.all_count;
  if (out.unmasked_count) context.dims[mask.symbol] = *out.unmasked_count;
  return out;
}

// Returns the pairs inside each mask: in closed form if there is one, otherwise as a symbol with a value in `dims`.
std::vector<MaskCount> count_masks(const ProgramMasks& masks, const Program& program, const Bindings& given,
                                   std::vector<Work>& work, RooflineContext& context) {
  std::vector<MaskCount> out;
  for (const IndexMask& mask : masks.all) {
    const bool needed =
        std::any_of(work.begin(), work.end(), [&](const Work& one) { return uses_symbol(one, mask.symbol); });
    if (mask.window || mask.routing) {
      if (mask.window && !always_gives_result_size(program, *mask.window, given))
        for (std::string& dim : dependency_dims(*mask.window)) context.tied_dims.push_back(std::move(dim));
      const Polynomial all = mask.window ? full_window_count(*mask.window, mask.window_count)
                                         : full_routing_count(*mask.routing, mask.routing_count);
      out.push_back(
          {mask, needed ? Polynomial::make_symbol(mask.symbol) : all, all, count_unmasked(mask, context.dims), {}});
      if (needed && out.back().unmasked_count) context.dims[mask.symbol] = *out.back().unmasked_count;
      if (const auto value = all.evaluate(context.dims); value) out.back().all_count = *value;
      continue;
    }
    if (!needed) continue;
    MaskCount count = count_index_mask(mask, program, given, work, context);
    if (count.unmasked != count.all) out.push_back(std::move(count));
  }
  return out;
}

// Adds H in G = H/8, because H cannot take every size, and dimensions of sequences, whose sizes are fixed.
void add_tied_dims(const Program& program, const Bindings& given, RooflineContext& context) {
  const auto fraction = [](const auto& term) { return term.second.denominator() != 1; };
  for (const Dimension& d : program.dims) {
    if (!lengths_along(program, d.name).empty()) context.tied_dims.push_back(d.name);
    if (!d.value || given.contains(d.name)) continue;
    if (std::none_of(d.value->terms().begin(), d.value->terms().end(), fraction)) continue;
    context.tied_dims.push_back(d.name);
    for (std::string& symbol : d.value->symbols()) context.tied_dims.push_back(std::move(symbol));
  }
}

// Routes transfers over the machine's network, which must exist if anything is sent or the program is split.
Status set_network(std::vector<Work>& work, const Program& program, bool is_split, RooflineContext& context) {
  const auto sends_bytes = [](const Work& one) { return !one.bytes_sent.is_zero(); };
  if (!is_split && std::none_of(work.begin(), work.end(), sends_bytes)) return Done{};
  RIDGE_TRY(network, make_network(context.machine));
  for (const MeshAxis& axis : program.mesh)
    if (const auto size = context.dims.find(axis.name); size != context.dims.end())
      network.mesh.emplace_back(axis.name[0], size->second);
  for (const Work& each : work)
    for (const Transfer& transfer : each.transfers) RIDGE_TRY_STATUS(check_reach(transfer, network));
  route_transfers(work, network);
  context.link_rate = network.used_rate();
  context.network = std::move(network);
  return Done{};
}

// Remarks on dimensions with fewer elements than the chips that they are split over.
void add_idle_chips(std::vector<std::string>& remarks, const Program& device_program, const Bindings& dims) {
  for (const Tensor& tensor : device_program.tensors)
    for (const Axis& axis : tensor.axes) {
      std::int64_t parts = 1;
      for (const char letter : axis.mesh)
        if (const auto size = dims.find(std::string(1, letter)); size != dims.end()) parts *= size->second;
      const auto size = axis.size(dims);
      if (!size || *size >= parts || parts == 1) continue;
      std::string remark = fmt::format("{} = {} is split over {} chips: {} of them have no part of it",
                                       axis.is_named() ? axis.dim : tensor.name, *size, parts, parts - *size);
      if (!contains(remarks, remark)) remarks.push_back(std::move(remark));
    }
}

// Adds the analysis of small messages and of overlap in chunks.
void add_collective_analysis(Explanation& out, const Program& program) {
  for (const Prediction& p : out.ops)
    for (const Transfer& t : p.work.transfers) add_small_messages(out.small_messages, t, *out.network);
  out.overlaps = find_overlaps(program, out);
}

// Predicts each operation and their total, and adds the thresholds of all products.
Status predict_all(Explanation& out, const Program& program, const std::vector<Work>& work,
                   const RooflineContext& context) {
  out.ops.reserve(work.size());
  for (std::size_t i = 0; i < work.size(); ++i) {
    auto prediction = predict_operation(work[i], context);
    if (!prediction) return add_statement_position(prediction.error(), program, program.statements[i]);
    out.ops.push_back(*std::move(prediction));
  }
  if (context.thresholds) out.unsolved = dims_without_threshold(out, context.threshold_options.derived_sizes);
  out.product_thresholds = find_compute_bound_sizes(out.ops, context);
  RIDGE_TRY(total, sum_operations(out.ops, context));
  out.total = std::move(total);
  return Done{};
}

Status check_split(const Program& program, const std::optional<DimensionSplit>& split) {
  if (!split) return Done{};
  if (!program.mesh.empty())
    return usage_error("--split needs a program without a mesh", "remove --split: the program is already sharded");
  return validate_split(program, *split);
}

// Counts the work of one chip.
std::vector<Work> count_device_work(const Program& device_program, const ProgramMasks& masks, bool is_split,
                                    const Bindings& dims) {
  std::vector<Work> out = count_work(device_program, dims, masks);
  if (is_split)
    for (Work& each : out) each.collective.clear();  // The text would name the internal axis
  return out;
}

// Adds the counts of masks, and sentences about conditions that exclude nothing.
void add_mask_counts(Explanation& out, ProgramMasks masks, const Program& device_program, const Bindings& given,
                     std::vector<Work>& work, RooflineContext& context) {
  out.masks = count_masks(masks, device_program, given, work, context);
  out.not_counted = std::move(masks.not_counted);
  for (const MaskCount& mask : out.masks)
    if (mask.is_irregular)
      out.not_counted.push_back(
          fmt::format("the condition {} takes too many steps to count: it excludes no work", format_mask(mask.mask)));
}

void add_network(Explanation& out, const Program& program, const RooflineContext& context) {
  out.network = context.network;
  for (const MeshAxis& axis : program.mesh) out.mesh_names.push_back(axis.name);
  if (!out.network) return;
  if (std::string shape = suggest_wider_shape(*out.network); !shape.empty()) out.remarks.push_back(std::move(shape));
}

}  // namespace

Polynomial compute_math_load(const Work& work, const Machine& machine) {
  Polynomial out = work.flops;
  if (work.math == DType::f64) return out;  // costs are those of f32
  for (const FunctionCalls& calls : work.calls)
    out += calls.count * Rational(static_cast<std::int64_t>(function_cost(machine, calls.function).value) - 1);
  return out;
}

Result<Explanation> explain(const Program& program, const Machine& machine, const Bindings& given,
                            const std::optional<DimensionSplit>& split, Thresholds thresholds) {
  RIDGE_TRY(dims, program.bind_sizes(given));
  RIDGE_TRY(bandwidth, machine.memory_bandwidth());
  RIDGE_TRY_STATUS(check_mesh_sizes(program, dims));
  RIDGE_TRY_STATUS(check_split(program, split));
  RooflineContext context{machine, bandwidth.value, dims, program.dim_names()};
  context.launch_s = launch_seconds(machine);
  const Program sharded_program = split ? shard_program(program, *split) : Program();
  const Program& device_program = split ? sharded_program : program;
  if (split) context.dims[split_axis] = split->chips;
  if (split) RIDGE_TRY_STATUS(validate_block_sizes(device_program, context.dims));
  ProgramMasks masks = find_masks(device_program);
  std::vector<Work> work = count_device_work(device_program, masks, split.has_value(), context.dims);
  Explanation out{.program_text = program.text, .machine = machine, .dim_names = context.order, .split = split};
  out.remarks = program.remarks;
  add_idle_chips(out.remarks, device_program, context.dims);
  for (const auto& [name, part] : largest_shards(device_program, context.dims)) context.dims[name] = part;
  RIDGE_TRY_STATUS(set_network(work, device_program, split.has_value(), context));
  const bool small = estimate_threshold_work(work) <= max_threshold_work;
  context.thresholds = small && thresholds == Thresholds::solved;
  add_tied_dims(program, given, context);
  add_mask_counts(out, std::move(masks), device_program, given, work, context);
  out.dims = context.dims;
  out.dims.erase(split_axis);
  context.sizes = {context.dims.begin(), context.dims.end()};
  context.threshold_options = make_threshold_options(program, device_program, given, out);
  list_derived_sizes(out, program, context.threshold_options.derived_sizes);
  out.thresholds_skipped = !small;
  add_network(out, program, context);
  RIDGE_TRY_STATUS(predict_all(out, program, work, context));
  const bool solved = thresholds == Thresholds::solved;  // Largest sizes that fit are thresholds, too
  if (out.network && !split && solved) add_collective_analysis(out, program);
  out.memory = analyze_memory(device_program, machine, context.dims,
                              solved ? context.threshold_options : ThresholdOptions(), context.order);
  RIDGE_TRY(fused, predict_fused(device_program, work, out, context));
  out.fused = std::move(fused);
  return out;
}

Result<CountedProgram> count_program(const Program& program) {
  RIDGE_CHECK(program.mesh.empty(), program.text);
  RIDGE_TRY(dims, program.bind_sizes({}));
  CountedProgram out{.dim_names = program.dim_names()};
  const Machine any_machine;
  RooflineContext context{any_machine, 1, dims, out.dim_names};
  const ProgramMasks masks = find_masks(program);
  out.work = count_work(program, context.dims, masks);
  count_masks(masks, program, {}, out.work, context);
  out.dims = std::move(context.dims);
  return out;
}

Result<std::vector<Prediction>> predict_statements(const CountedProgram& counted, const Machine& machine) {
  RIDGE_TRY(context, make_kernel_context(counted, machine));
  std::vector<Prediction> out;
  out.reserve(counted.work.size());
  for (const Work& work : counted.work) {
    RIDGE_TRY(prediction, predict_operation(work, context));
    out.push_back(std::move(prediction));
  }
  return out;
}

MemoryUse analyze_memory(const Program& program, const Explanation& explanation, const Bindings& given,
                         const KernelGroups& groups, std::int64_t layers) {
  Bindings sizes = explanation.dims;
  if (explanation.split) sizes[split_axis] = explanation.split->chips;
  const Program sharded_program = explanation.split ? shard_program(program, *explanation.split) : Program();
  const Program& device_program = explanation.split ? sharded_program : program;
  return analyze_memory(device_program, explanation.machine, sizes,
                        make_threshold_options(program, device_program, given, explanation), explanation.dim_names,
                        groups, layers);
}

Result<Explanation> explain(Flops flops, Bytes bytes, const Machine& machine, DType dtype) {
  RIDGE_TRY(counted_flops, make_count(flops.value, "FLOPs", 0));
  RIDGE_TRY(counted_bytes, make_count(bytes.value, "bytes", 1));
  RIDGE_TRY(bandwidth, machine.memory_bandwidth());
  const std::string text = fmt::format("{} FLOP, {} B", flops.value, bytes.value);
  const Work work{.name = "numbers",
                  .text = text,
                  .contraction = true,
                  .math = dtype,
                  .flops = counted_flops,
                  .bytes_in = counted_bytes};
  const Bindings sizes{{large_factor_symbol, 1 << 20}};
  RooflineContext context{machine, bandwidth.value, sizes, {}};
  context.sizes = {sizes.begin(), sizes.end()};
  Explanation out{.program_text = text, .machine = machine};
  RIDGE_TRY(prediction, predict_operation(work, context));
  out.ops.push_back(std::move(prediction));
  RIDGE_TRY(total, sum_operations(out.ops, context));
  out.total = std::move(total);
  return out;
}

}  // namespace ridge
