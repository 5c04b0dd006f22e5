#include "ridge/roofline/sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <numeric>
#include <set>
#include <thread>

#include "ridge/base/cores.h"
#include "ridge/roofline/routines/routings.h"
#include "ridge/roofline/routines/windows.h"
#include "ridge/roofline/sizes/flat_program.h"
#include "ridge/roofline/split.h"
#include "ridge/roofline/totals.h"

namespace ridge {
namespace {

// Returns the sizes that depend on a range, directly or indirectly.
std::set<std::string> find_varying_sizes(const Program& program, const FlatSizes& sizes) {
  std::set<std::string> varying;
  for (bool again = true; again;) {
    again = false;
    for (const Dimension& dim : program.dims) {
      if (!dim.value || sizes.has_name(dim.name) || varying.contains(dim.name)) continue;
      const auto symbols = dim.value->symbols();
      const bool moves = std::any_of(symbols.begin(), symbols.end(),
                                     [&](const std::string& s) { return sizes.has_name(s) || varying.contains(s); });
      if (!moves) continue;
      varying.insert(dim.name);
      again = true;
    }
  }
  return varying;
}

// Returns the sizes in the order of computation: those of the ranges, then those that depend on them. Others keep the
// values of `fixed_sizes`.
FlatSizes order_sizes(const Program& program, const std::vector<DimensionValues>& ranges, const Bindings& fixed_sizes) {
  SizeNames independent;
  for (const DimensionValues& range : ranges) independent.push_back(range.dim);
  FlatSizes out(std::move(independent), fixed_sizes);
  const std::set<std::string> varying = find_varying_sizes(program, out);
  for (bool again = true; again;) {
    again = false;
    for (const Dimension& dim : program.dims) {
      if (!varying.contains(dim.name) || out.has_name(dim.name)) continue;
      const auto symbols = dim.value->symbols();
      const bool known = std::all_of(symbols.begin(), symbols.end(), [&](const std::string& s) {
        return out.has_name(s) || (!varying.contains(s) && fixed_sizes.contains(s));
      });
      if (!known) continue;
      out.add_derived_size(dim.name, *dim.value);
      again = true;
    }
  }
  return out;
}

// Compiles a count of the program. Errors: a dimension without a value, a count beyond 2^63.
Result<FlatCount> compile_count(const FlatSizes& sizes, const Polynomial& count) {
  for (const std::string& symbol : count.symbols())
    if (!sizes.has_name(symbol) && !sizes.constants().contains(symbol))
      return usage_error(fmt::format("dimension '{}' has no value", symbol),
                         fmt::format("give it one or several: -d {0}=256, -d {0}=1..4096:*2", symbol));
  if (count.is_exact()) return sizes.compile(count);
  return input_error(fmt::format("expected a count below 2^63, found {}", count.to_string()), "use smaller sizes");
}

bool has_quotient(const Polynomial& size) {
  return std::any_of(size.terms().begin(), size.terms().end(),
                     [](const auto& term) { return term.second.denominator() != 1; });
}

// Returns the reasons that a point may be unknown for, and sets those of the computed values.
std::vector<std::string> list_reasons(const Program& program, FlatSizes& sizes, const Explanation& e) {
  std::vector<std::string> out{"", "a count exceeds 10^38", "a size exceeds 2^63"};
  const std::size_t first = sizes.names().size() - sizes.computed().size();
  for (std::size_t i = 0; i < sizes.computed().size(); ++i) {
    FlatValue& value = sizes.computed()[i];
    const auto dim = std::find_if(program.dims.begin(), program.dims.end(),
                                  [&](const Dimension& d) { return d.name == sizes.names()[first + i]; });
    std::string reason;
    if (value.is_size && dim != program.dims.end())
      reason = fmt::format("{} = {} is {}", dim->name, dim->value->to_string(e.dim_names),
                           has_quotient(*dim->value) ? "not a whole number of at least 1" : "below 1");
    if (value.mask && value.mask->mask.window) reason = window_mismatch_text(*value.mask->mask.window);
    if (value.mask && value.mask->mask.routing) reason = routing_mismatch_text(*value.mask->mask.routing);
    if (value.mask && value.mask->mask.region)
      reason = fmt::format("the condition {} takes too many steps to count", format_mask(value.mask->mask));
    if (reason.empty()) continue;
    value.reason = static_cast<std::uint16_t>(out.size());
    out.push_back(std::move(reason));
  }
  return out;
}

Result<FlatProgram> compile_program(const FlatSizes& sizes, const Explanation& e) {
  FlatProgram out{.names = sizes.names(),
                  .computed = sizes.computed(),
                  .ops = {},
                  .sum = {.flops = FlatCount({}, {}), .bytes = FlatCount({}, {}), .link_load = FlatCount({}, {})},
                  .bandwidth = *e.total.bandwidth,
                  .link_rate = e.total.link_rate.value_or(1),
                  .launch_s = launch_seconds(e.machine),
                  .reasons = {}};
  for (const Prediction& p : e.ops) {
    auto flops = compile_count(sizes, p.work.flops), math = compile_count(sizes, p.math_load),
         bytes = compile_count(sizes, p.work.bytes()), sent = compile_count(sizes, p.work.bytes_sent);
    for (const auto* each : {&flops, &math, &bytes, &sent})
      if (!*each) return each->error();
    FlatOp op{*std::move(flops), *std::move(math), *std::move(bytes), *std::move(sent),
              p.peak ? p.peak->rate.value : 0};
    for (const Transfer& transfer : p.work.transfers) {
      RIDGE_TRY(transferred, compile_count(sizes, transfer.bytes));
      op.transfers.push_back({std::move(transferred), transfer.cost});
    }
    out.ops.push_back(std::move(op));
  }
  const NormalizedFlops normalized = normalize_flops(e.ops);
  auto flops = compile_count(sizes, normalized.flops), bytes = compile_count(sizes, e.total.work.bytes()),
       load = compile_count(sizes, e.total.work.link_load);
  for (const auto* each : {&flops, &bytes, &load})
    if (!*each) return each->error();
  out.sum = {*std::move(flops), normalized.peak, *std::move(bytes), *std::move(load)};
  return out;
}

// Evaluates some points, the first of which has the last range's first value.
void evaluate_points(const FlatProgram& program, const std::vector<DimensionValues>& ranges, std::size_t first,
                     std::span<SweepPoint> points) {
  const std::size_t n = ranges.size(), last_count = ranges.empty() ? 1 : ranges.back().values.size();
  std::vector<std::int64_t> sizes(program.names.size());
  std::vector<std::size_t> value_indices(n);
  std::size_t rest = first;
  for (std::size_t i = n; i-- > 0; rest /= ranges[i].values.size()) {
    value_indices[i] = rest % ranges[i].values.size();
    sizes[i] = ranges[i].values[value_indices[i]];
  }
  for (std::size_t k = 0; k < points.size(); ++k) {
    points[k] = evaluate_point(program, sizes.data());
    if (k > 0 && (first + k) % last_count != 0)
      points[k].limiter_changed =
          points[k].time_lower_s >= 0 && points[k - 1].time_lower_s >= 0 && points[k].limiter != points[k - 1].limiter;
    for (std::size_t i = n; i-- > 0;) {
      value_indices[i] = value_indices[i] + 1 == ranges[i].values.size() ? 0 : value_indices[i] + 1;
      sizes[i] = ranges[i].values[value_indices[i]];
      if (value_indices[i] != 0) break;
    }
  }
}

}  // namespace

std::int64_t Sweep::size_at(std::size_t point, std::size_t range) const {
  for (std::size_t i = ranges.size() - 1; i > range; --i) point /= ranges[i].values.size();
  return ranges[range].values[point % ranges[range].values.size()];
}

Result<std::size_t> count_points(const std::vector<DimensionValues>& ranges) {
  std::size_t count = 1;
  std::set<std::string> seen;
  for (const DimensionValues& range : ranges) {
    if (!seen.insert(range.dim).second)
      return usage_error(fmt::format("dimension '{}' is given twice", range.dim), "give each dimension once");
    count *= range.values.size();
    if (count > max_sweep_points)
      return usage_error(fmt::format("expected at most {} points, found more", max_sweep_points),
                         "take larger steps, or fewer dimensions at a time");
  }
  return count;
}

namespace {

// Returns the sizes of mesh axes among the ranges; all other ranges are swept.
Result<Bindings> mesh_sizes(const Program& program, const std::vector<DimensionValues>& ranges) {
  Bindings out;
  for (const DimensionValues& range : ranges)
    for (const MeshAxis& axis : program.mesh) {
      if (axis.name != range.dim) continue;
      if (range.values.size() > 1)
        return usage_error(
            fmt::format("expected one size of the mesh axis {}, found {}", axis.name, range.values.size()),
            "without a mesh in the program, --split N=1,2,4 sweeps over chips");
      out[axis.name] = range.values.front();
    }
  return out;
}

// Replaces the counts by those with symbols of the largest shards.
void use_shard_symbols(Explanation& e, const Program& device_program, const Bindings& mesh) {
  Bindings axes;
  for (const MeshAxis& axis : device_program.mesh)
    if (const auto size = mesh.find(axis.name); size != mesh.end()) axes.insert(*size);
  std::vector<Work> work = count_work_with_shard_symbols(device_program, axes);
  if (e.network) {
    Network network = *e.network;
    route_transfers(work, network);
  }
  e.total.work = {.name = "total"};
  for (std::size_t i = 0; i < work.size(); ++i) {
    e.total.work.flops += work[i].flops;
    e.total.work.bytes_in += work[i].bytes_in;
    e.total.work.bytes_out += work[i].bytes_out;
    e.total.work.link_load += work[i].link_load;
    e.ops[i].work = std::move(work[i]);
    e.ops[i].math_load = compute_math_load(e.ops[i].work, e.machine);
  }
}

// Adds a size for the blocks in a row of each block-scaled tensor, which must be a whole number.
Program add_block_counts(const Program& program, const std::optional<DimensionSplit>& split, Bindings devices) {
  const Program device_program = split ? shard_program(program, *split) : program;
  if (split) devices[split_axis] = split->chips;
  Program out = program;
  for (const Tensor& tensor : device_program.tensors) {
    if (!is_block_scaled(tensor.dtype) || tensor.axes.empty() || !tensor.axes.back().is_named()) continue;
    std::int64_t each = dtype_info(tensor.dtype).block;
    for (const char letter : tensor.axes.back().mesh)
      if (const auto size = devices.find(std::string(1, letter)); size != devices.end()) each *= size->second;
    out.dims.push_back({.name = "blocks of " + tensor.name,
                        .value = Polynomial::make_symbol(tensor.axes.back().dim) * Rational(1, each)});
  }
  return out;
}

Result<FlatProgram> compile_sweep(const Program& source, const Machine& machine,
                                  const std::vector<DimensionValues>& ranges,
                                  const std::optional<DimensionSplit>& split) {
  RIDGE_TRY(mesh, mesh_sizes(source, ranges));
  const Program program = add_block_counts(source, split, mesh);
  for (const DimensionValues& range : ranges)
    if (!lengths_along(program, range.dim).empty())
      return usage_error(fmt::format("expected no sizes of '{}', because its sequences have fixed lengths", range.dim),
                         "change the lengths in the program");
  Program open_program = program, unsized;
  unsized.dims = program.dims;
  unsized.mesh = program.mesh;
  Bindings first;
  for (const DimensionValues& range : ranges) first[range.dim] = range.values.front();
  for (Dimension& dim : unsized.dims) dim.value.reset();
  RIDGE_TRY_STATUS(unsized.bind_sizes(first));
  for (Dimension& dim : open_program.dims)
    if (first.contains(dim.name)) dim.value.reset();
  RIDGE_TRY(fixed, open_program.bind_sizes(mesh));  // Sizes that depend on no range
  for (Dimension& dim : open_program.dims) dim.value.reset();
  RIDGE_TRY(explanation, explain(open_program, machine, mesh, split));  // All sizes stay symbolic
  const Program device_program = split ? shard_program(open_program, *split) : open_program;
  Bindings devices = fixed;
  if (split) devices[split_axis] = split->chips;
  use_shard_symbols(explanation, device_program, devices);
  FlatSizes sizes = order_sizes(program, ranges, devices);
  for (const IndexMask& mask : find_masks(device_program).all) {
    const auto is_used = [&](const Prediction& p) { return uses_symbol(p.work, mask.symbol); };
    if (mask.window || mask.routing || std::any_of(explanation.ops.begin(), explanation.ops.end(), is_used))
      sizes.add_mask(mask);
  }
  for (const DimShard& each : list_shards(device_program, devices)) sizes.add_shard(each);
  const std::vector<std::string> reasons = list_reasons(program, sizes, explanation);
  RIDGE_TRY(flat, compile_program(sizes, explanation));
  flat.reasons = reasons;
  flat.sends = !explanation.total.work.link_load.is_zero();
  flat.missing = explanation.total.missing;
  return flat;
}

}  // namespace

Result<SweepLine> sweep_line(const Program& program, const Machine& machine, const std::vector<DimensionValues>& ranges,
                             const std::optional<DimensionSplit>& split,
                             const std::function<void(double)>& report_progress) {
  RIDGE_TRY(count, count_points(ranges));
  RIDGE_TRY(flat, compile_sweep(program, machine, ranges, split));
  SweepLine line{.machine = machine.name,
                 .dtype = {},
                 .split = split,
                 .points = std::vector<SweepPoint>(count),
                 .reasons = flat.reasons,
                 .sends = flat.sends,
                 .missing = flat.missing};
  // Each block is some complete runs of the last range, about 2^15 points; any idle thread takes the next one.
  const std::size_t last_count = ranges.empty() ? 1 : ranges.back().values.size();
  const std::size_t block = std::max<std::size_t>(1, 32768 / last_count) * last_count;
  std::atomic<std::size_t> next = 0;
  const auto run_blocks = [&](bool reports) {
    for (std::size_t from = next.fetch_add(block); from < count; from = next.fetch_add(block)) {
      evaluate_points(flat, ranges, from, std::span(line.points).subspan(from, std::min(block, count - from)));
      if (reports && report_progress)
        report_progress(static_cast<double>(std::min(count, from + block)) / static_cast<double>(count));
    }
  };
  {
    std::vector<std::jthread> others;
    for (int i = 1; i < usable_cores() && count > block; ++i) others.emplace_back(run_blocks, false);
    run_blocks(true);
  }
  return line;
}

}  // namespace ridge
