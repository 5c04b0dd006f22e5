#include "ridge/report/parts/assumed.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "ridge/report/words.h"

namespace ridge {
namespace {

// "left out: vector f32 peak of tpu_v6e (h): the times are bounds without it"
std::string left_out_line(const Explanation& e) {
  std::vector<std::string> ops;
  for (const Prediction& p : e.ops)
    if (!p.missing.empty()) ops.push_back(p.work.name);
  if (ops.empty()) return {};
  return fmt::format("left out: computing {}: {} is not on record; the times are bounds without it\n",
                     shortened(fmt::format("{}", fmt::join(ops, ", ")), 40), e.total.missing);
}

std::string network_line(const Explanation& e) {
  return e.network && e.total.link ? fmt::format("network: {}\n", text(*e.network)) : std::string();
}

std::string sending_lines(const Explanation& e) {
  std::string out;
  for (const SmallMessages& small : e.small) out += text(small) + "\n";
  for (const Overlap& overlap : e.overlaps) out += text(overlap) + "\n";
  return out;
}

// What a mask's count is of.
std::string counted_of(const Mask& mask) {
  if (!mask.window) return "pairs are computed";
  return mask.of_window == WindowCount::taps ? "places of windows lie inside" : "elements are read";
}

std::string routing_line(const MaskCount& mask, const Explanation& e) {
  const std::string over = text(mask.mask);
  if (mask.mask.of_routing == RoutingCount::kept) {
    std::string out =
        fmt::format("routing {}: {} of {} rows are within a capacity of {}", over, mask.through.text(e.dim_names),
                    mask.all.text(e.dim_names), mask.mask.routing->capacity);
    if (mask.through_count && mask.all_count)
      out += fmt::format(", {} of {}", grouped(*mask.through_count), grouped(*mask.all_count));
    return out + "\n";
  }
  std::string out = fmt::format("routing {}: {}/1000 experts are read, each once, in expectation of even choices", over,
                                mask.through.text(e.dim_names));
  if (mask.through_count && mask.all_count)
    out += fmt::format(", {:.3f} of {}", static_cast<double>(*mask.through_count) / 1000, *mask.all_count / 1000);
  return out + "\n";
}

std::string mask_line(const MaskCount& mask, const Explanation& e) {
  if (mask.mask.routing) return routing_line(mask, e);
  std::string out = fmt::format("{} {}: {} of {} {}", mask.mask.window ? "windows" : "mask", text(mask.mask),
                                mask.through.text(e.dim_names), mask.all.text(e.dim_names), counted_of(mask.mask));
  if (mask.through_count && mask.all_count)
    out += fmt::format(", {} of {}", grouped(*mask.through_count), grouped(*mask.all_count));
  return out + "\n";
}

std::string largest_part_lines(const Explanation& e) {
  std::string out;
  for (const auto& [name, size] : e.dims)
    if (name.starts_with("ceil("))
      out += fmt::format("{} = {}: the largest part, where the devices do not divide it\n", name, grouped(size));
  return out;
}

std::string products_line(const Explanation& e) {
  std::string out;
  for (const Threshold& t : e.products) {
    if (t.relation == Relation::never || t.relation == Relation::always || !t.value) continue;
    out += fmt::format("{}{} {} {}", out.empty() ? "" : ", ", t.dim, name(t.relation), *t.value);
  }
  return out.empty() ? out : "every product compute-bound, each for itself: " + out + "\n";
}

std::string size_or_dash(const std::optional<double>& bytes) { return bytes ? engineering(*bytes, "B") : "-"; }

std::string role_of(const TensorMemory& tensor) {
  if (tensor.parameter) return "parameters";
  switch (tensor.role) {
    case Role::input: return "input";
    case Role::intermediate: return "intermediate";
    case Role::output: return "output";
  }
  return "";
}

// The largest ones first, at most twelve.
std::string tensor_table(const Memory& memory) {
  constexpr std::size_t most = 12;
  std::vector<std::size_t> order(memory.tensors.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return memory.tensors[a].device_bytes.value_or(0) > memory.tensors[b].device_bytes.value_or(0);
  });
  std::vector<std::vector<std::string>> rows;
  for (std::size_t i = 0; i < std::min(most, order.size()); ++i) {
    const TensorMemory& t = memory.tensors[order[i]];
    rows.push_back(
        {"  " + shortened(t.name, 24), std::string(name(t.dtype)), role_of(t), size_or_dash(t.device_bytes)});
    if (memory.devices > 1)
      rows.back().push_back(fmt::format("{} over {} devices, {} of it", size_or_dash(t.all_bytes),
                                        grouped(memory.devices),
                                        t.copies && *t.copies > 1.5 ? significant(*t.copies) + " copies" : "one copy"));
  }
  std::string out = aligned(rows, {false, false, false, true, false});
  if (order.size() > most) out += fmt::format("  and {} smaller ones\n", order.size() - most);
  return out;
}

std::string peak_line(const Memory& memory) {
  if (!memory.peak_bytes) return {};
  std::string out = fmt::format("  held at once, most at {}: {}", shortened(memory.peak_at, 24),
                                held_text(*memory.peak_bytes, memory));
  if (memory.chips && *memory.chips > 1)
    out += fmt::format("; {} chips hold it, each tensor once", grouped(static_cast<long long>(*memory.chips)));
  return out + "\n";
}

std::string fits_line(const Threshold& t) {
  if (t.relation == Relation::never) return fmt::format("  no {} fits\n", t.dim);
  std::string out = fmt::format("  fits for {} <= {}", t.dim, *t.value);
  if (!t.exact.empty()) out += ": " + t.exact;
  return out + (t.numerical ? " (solved numerically)\n" : "\n");
}

}  // namespace

std::string assumed_text(const Explanation& e) {
  std::string out = left_out_line(e) + network_line(e) + sending_lines(e) + largest_part_lines(e);
  for (const std::string& remark : e.remarks) out += remark + "\n";
  for (const MaskCount& mask : e.masks)
    if (mask.through != mask.all) out += mask_line(mask, e);
  return out + products_line(e);
}

std::string memory_text(const Explanation& e) {
  if (!e.memory || !e.memory->peak_bytes) return {};
  const Memory& memory = *e.memory;
  std::string out = "\nmemory\n" + tensor_table(memory);
  if (memory.parameter_count && *memory.parameter_count > 0)
    out += fmt::format("  parameters: {}, {}: the inputs without {}\n", engineering(*memory.parameter_count, ""),
                       engineering(*memory.parameter_bytes, "B"), fmt::join(memory.token_dims, ", "));
  out += peak_line(memory);
  for (const Threshold& t : memory.fits) out += fits_line(t);
  return out;
}

}  // namespace ridge
