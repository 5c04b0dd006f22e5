#include "ridge/report/parts/assumptions.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "ridge/machine/function_costs.h"
#include "ridge/report/text_parts.h"

namespace ridge {
namespace {

// "left out: compute time of h: vector f32 peak of tpu_v6e is unknown; times are bounds without it"
std::string left_out_line(const Explanation& e) {
  std::vector<std::string> ops;
  for (const Prediction& p : e.ops)
    if (!p.missing.empty()) ops.push_back(p.work.name);
  if (ops.empty()) return {};
  return fmt::format("left out: compute time of {}: {} is unknown; times are bounds without it\n",
                     truncate_text(fmt::format("{}", fmt::join(ops, ", ")), 40), e.total.missing);
}

std::string network_line(const Explanation& e) {
  return e.network && e.total.link_rate ? fmt::format("network: {}\n", describe_network(*e.network)) : std::string();
}

std::string communication_lines(const Explanation& e) {
  std::string out;
  for (const SmallMessages& small : e.small_messages) out += describe_small_messages(small) + "\n";
  for (const Overlap& overlap : e.overlaps) out += describe_overlap(overlap) + "\n";
  return out;
}

// A noun for what a mask or window counts, and what is said of it.
struct CountedUnit {
  std::string_view noun, predicate;
};

CountedUnit counted_unit(const IndexMask& mask) {
  if (mask.gathered) return {"rows", "are read if all indices differ"};
  if (mask.routing) return {"rows", "are within a capacity"};
  if (mask.window && mask.window_count == WindowCount::taps)
    return {"window positions", mask.window->is_transposed ? "are inside the result" : "are inside the input"};
  if (mask.window) return {"elements", "are read"};
  if (counted_dims(mask).size() < 2) return {"indices", "are used"};
  return {counted_dims(mask).size() == 2 ? "index pairs" : "index tuples", "are computed"};
}

// "8 390 656 (S*S/2 + S/2) of 16 777 216 (S*T) index pairs are computed"; without sizes "S*S/2 + S/2 of S*T index pairs
// are computed", or "of S*T index pairs, the number `pairs` are computed" if only a symbol stands for the count.
std::string count_text(const MaskCount& mask, const Explanation& e) {
  const auto [noun, predicate] = counted_unit(mask.mask);
  const std::string counted = mask.unmasked.to_string(e.dim_names), all = mask.all.to_string(e.dim_names);
  if (mask.unmasked_count && mask.all_count)
    return fmt::format("{} ({}) of {} ({}) {} {}", group_digits(*mask.unmasked_count), counted,
                       group_digits(*mask.all_count), all, noun, predicate);
  if (mask.unmasked == Polynomial::make_symbol(mask.mask.symbol))
    return fmt::format("of {} {}, a number `{}` {}", all, noun, counted, predicate);
  return fmt::format("{} of {} {} {}", counted, all, noun, predicate);
}

// "routing over E: 5.469 of 8 experts are read, each once (expected value of uniform routing); milliexperts = 5469"
std::string experts_line(const MaskCount& mask, const Explanation& e) {
  const std::string symbol = mask.unmasked.to_string(e.dim_names);
  const std::string how = "each once (expected value of uniform routing)";
  if (!mask.unmasked_count || !mask.all_count)
    return fmt::format("routing {}: `{}` is the number of thousandths of experts that are read, {}\n",
                       format_mask(mask.mask), symbol, how);
  return fmt::format("routing {}: {:.3f} of {} experts are read, {}; {} = {}\n", format_mask(mask.mask),
                     static_cast<double>(*mask.unmasked_count) / 1000, *mask.all_count / 1000, how, symbol,
                     *mask.unmasked_count);
}

std::string mask_line(const MaskCount& mask, const Explanation& e) {
  if (mask.mask.routing && mask.mask.routing_count == RoutingCount::experts) return experts_line(mask, e);
  std::string_view kind = "mask";
  if (mask.mask.window) kind = "windows";
  if (mask.mask.gathered) kind = "gather";
  if (mask.mask.routing) kind = "routing";
  std::string out = fmt::format("{} {}: {}", kind, format_mask(mask.mask), count_text(mask, e));
  if (mask.mask.routing) out += fmt::format(" of {}", mask.mask.routing->capacity);
  if (mask.on_all_devices)
    out += fmt::format(" on the chip with the most, {} on all chips", group_digits(*mask.on_all_devices));
  return out + "\n";
}

// True if the mask leaves something out, or may do so at other sizes.
bool is_reported(const MaskCount& mask) {
  if (mask.unmasked == mask.all || mask.is_irregular) return false;
  const bool is_index = !mask.mask.window && !mask.mask.routing && counted_dims(mask.mask).size() < 2;
  return !is_index || !mask.unmasked_count || mask.unmasked_count != mask.all_count;
}

std::string largest_shard_lines(const Explanation& e) {
  std::string out;
  for (const auto& [name, size] : e.dims)
    if (name.starts_with("ceil("))
      out +=
          fmt::format("{} = {}: the largest shard, if the devices do not divide the size\n", name, group_digits(size));
  return out;
}

std::string size_or_dash(const std::optional<double>& bytes) { return bytes ? format_with_prefix(*bytes, "B") : "-"; }

std::string role_text(const TensorMemory& tensor) {
  switch (tensor.role) {
    case TensorRole::input:
      switch (tensor.use) {
        case InputUse::parameter: return "parameters";
        case InputUse::cache: return "cache";
        case InputUse::state: return "state";
        case InputUse::activation: return "input";
      }
      return "";
    case TensorRole::intermediate: return "intermediate";
    case TensorRole::output: return "output";
  }
  return "";
}

// Returns the twelve largest tensors, largest first.
std::string tensor_table(const MemoryUse& memory) {
  constexpr std::size_t max_tensors = 12;
  std::vector<std::size_t> order(memory.tensors.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return memory.tensors[a].device_bytes.value_or(0) > memory.tensors[b].device_bytes.value_or(0);
  });
  std::vector<std::vector<std::string>> rows;
  for (std::size_t i = 0; i < std::min(max_tensors, order.size()); ++i) {
    const TensorMemory& t = memory.tensors[order[i]];
    rows.push_back({"  " + truncate_text(t.name, 24), std::string(dtype_name(t.dtype)), role_text(t),
                    size_or_dash(t.device_bytes)});
    if (memory.devices > 1)
      rows.back().push_back(
          fmt::format("{} over {} devices, {}", size_or_dash(t.all_bytes), group_digits(memory.devices),
                      t.copies && *t.copies > 1.5 ? format_significant(*t.copies) + " copies" : "one copy"));
  }
  std::string out = align_columns(rows, {false, false, false, true, false});
  if (order.size() > max_tensors) out += fmt::format("  and {} smaller tensors\n", order.size() - max_tensors);
  return out;
}

std::string peak_line(const MemoryUse& memory) {
  if (!memory.peak_bytes) return {};
  std::string out = fmt::format("  peak at {}: {}", truncate_text(memory.peak_statement, 24),
                                memory_use_text(*memory.peak_bytes, memory));
  if (memory.min_chips && *memory.min_chips > 1)
    out += fmt::format("; needs {} chips with one copy of each tensor",
                       group_digits(static_cast<long long>(*memory.min_chips)));
  return out + "\n";
}

std::string fits_line(const Threshold& t) {
  if (t.relation == Relation::never) return fmt::format("  no {} fits\n", t.dim);
  std::string out = fmt::format("  fits for {} <= {}", t.dim, *t.value);
  if (!t.exact.empty()) out += ": " + t.exact;
  return out + (t.numerical ? " (solved numerically)\n" : "\n");
}

}  // namespace

std::string assumptions_text(const Explanation& e) {
  std::string out = left_out_line(e) + network_line(e) + communication_lines(e) + largest_shard_lines(e);
  for (const std::string& remark : e.remarks) out += remark + "\n";
  for (const MaskCount& mask : e.masks)
    if (is_reported(mask)) out += mask_line(mask, e);
  for (const std::string& sentence : e.not_counted) out += sentence + "\n";
  return out;
}

std::vector<std::pair<Function, SourcedValue>> used_function_costs(const Explanation& e) {
  std::vector<std::pair<Function, SourcedValue>> out;
  for (const Prediction& p : e.ops)
    for (const FunctionCalls& calls : p.work.calls)
      if (p.work.math != DType::f64 &&
          std::ranges::find(out, calls.function, [](const auto& known) { return known.first; }) == out.end())
        out.emplace_back(calls.function, function_cost(e.machine, calls.function));
  return out;
}

std::string function_costs_text(const Explanation& e) {
  std::vector<std::string> costs;
  std::string guessed;
  for (const auto& [function, cost] : used_function_costs(e)) {
    costs.push_back(fmt::format("{} {:.0f}", function_info(function).name, cost.value));
    if (cost.origin == Origin::guessed) guessed = fmt::format(" ({})", cost.source);
  }
  if (costs.empty()) return {};
  return fmt::format("a call takes as long as: {}{}", fmt::join(costs, ", "), guessed);
}

std::string memory_text(const Explanation& e) {
  if (!e.memory || !e.memory->peak_bytes) return {};
  const MemoryUse& memory = *e.memory;
  std::string out = "\nmemory\n" + tensor_table(memory);
  if (memory.parameter_count && *memory.parameter_count > 0)
    out += fmt::format("  parameters: {}, {}{}\n", format_with_prefix(*memory.parameter_count, ""),
                       format_with_prefix(*memory.parameter_bytes, "B"),
                       memory.batch_dims.empty()
                           ? ""
                           : fmt::format(": the inputs without dimension {}", fmt::join(memory.batch_dims, ", ")));
  out += peak_line(memory);
  for (const Threshold& t : memory.capacity_thresholds) out += fits_line(t);
  return out;
}

}  // namespace ridge
