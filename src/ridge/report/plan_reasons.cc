// Reasons for the predicted time of a product: waves, work of tiles outside the matrix, bytes from memory compared with
// the minimum, and unaligned rows.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "ridge/base/string_util.h"
#include "ridge/report/json_values.h"
#include "ridge/report/plan.h"

namespace ridge {
namespace {

std::string bytes_text(double count) { return format_with_prefix(count, "B"); }

// "128 tiles of 128 x 256, 132 at a time: 0.97 of one wave"
std::string waves_text(const GroupPrediction& plan) {
  const PlanProperties& properties = *plan.properties;
  if (!plan.plan.tile_m)
    return fmt::format("{} tiles on {} threads", properties.work_items, properties.concurrent_items);  // a CPU
  const double share = static_cast<double>(properties.work_items) / static_cast<double>(properties.concurrent_items);
  const std::string unit_name = plan.plan.split.value_or(1) > 1 ? "split tiles" : "tiles";
  const std::string out = fmt::format("{} {} of {} x {}, {} at a time: ", properties.work_items, unit_name,
                                      *plan.plan.tile_m, *plan.plan.tile_n, properties.concurrent_items);
  const std::int64_t full_waves =
      (properties.work_items + properties.concurrent_items - 1) / properties.concurrent_items;
  return full_waves == 1 ? out + fmt::format("{:.2f} of one wave", share)
                         : out + fmt::format("{:.2f} waves, rounded up to {}", share, full_waves);
}

// "3.1 % of the work is outside the matrix", at the edges of tiles
std::string tile_edge_waste_text(const PlanProperties& properties) {
  if (properties.outside_fraction < 0.0005) return "no work outside the matrix";
  return fmt::format("{:.1f} % of the work is outside the matrix", 100 * properties.outside_fraction);
}

// "58.80 MB from memory, minimum 25.19 MB"
std::string traffic_text(const GroupPrediction& plan) {
  const double min_bytes = plan.properties->min_bytes, from_memory = static_cast<double>(plan.memory_bytes);
  if (from_memory < 1.005 * min_bytes) return fmt::format("{} from memory, the minimum", bytes_text(from_memory));
  return fmt::format("{} from memory, minimum {}", bytes_text(from_memory), bytes_text(min_bytes));
}

std::string operand_name(const GroupPrediction& plan, const PlanProperties::UnalignedOperand& lines) {
  const std::size_t at = lines.operand;
  return at < plan.operands.size() ? plan.operands[at] : "an operand";
}

// "rows of X (4098 B, aligned to 2 B) are not aligned to 16 B, so it is copied first, which moves 33.59 MB; ..."
std::string unaligned_text(const GroupPrediction& plan) {
  const PlanProperties& properties = *plan.properties;
  std::vector<std::string> copied, misaligned;
  std::int64_t copied_bytes = 0;
  for (const PlanProperties::UnalignedOperand& lines : properties.unaligned_operands) {
    const std::string text =
        fmt::format("{} ({} B, aligned to {} B)", operand_name(plan, lines), lines.line_stride_bytes, lines.alignment);
    (lines.copy_traffic_bytes > 0 ? copied : misaligned).push_back(text);
    copied_bytes += lines.copy_traffic_bytes;
  }
  std::vector<std::string> out;
  if (!copied.empty())
    out.push_back(fmt::format("rows of {} are not aligned to {} B, so {} copied first, which moves {}",
                              fmt::join(copied, " and "), properties.min_alignment,
                              copied.size() == 1 ? "it is" : "they are",
                              bytes_text(static_cast<double>(copied_bytes))));
  if (!misaligned.empty())
    out.push_back(fmt::format("rows of {} are not aligned to 128 B: each touches one more memory line",
                              fmt::join(misaligned, " and ")));
  if (properties.element_stores)
    out.push_back(fmt::format("the result's rows of {} B are not aligned, so its elements are stored one by one",
                              properties.result_line_bytes));
  return fmt::format("{}", fmt::join(out, "; "));
}

std::string padding_text(const GroupPrediction& plan) {
  if (!plan.properties->padded) return {};
  const PlanProperties::PaddedProduct& p = *plan.properties->padded;
  return fmt::format("padded to {} x {} x {}: {} instead of {}", p.size.m, p.size.n, p.size.k,
                     format_with_prefix(p.predicted_s, "s"), format_with_prefix(plan.predicted_s.expected, "s"));
}

}  // namespace

std::string plan_reason(const GroupPrediction& plan) {
  if (!plan.properties) return {};
  std::vector<std::string> parts;
  if (plan.properties->work_items > 0)
    parts.insert(parts.end(), {waves_text(plan), tile_edge_waste_text(*plan.properties)});
  parts.push_back(traffic_text(plan));
  for (const std::string& more : {unaligned_text(plan), padding_text(plan)})
    if (!more.empty()) parts.push_back(more);
  return fmt::format("{}", fmt::join(parts, "; "));
}

nlohmann::ordered_json plan_properties_json(const GroupPrediction& plan) {
  if (!plan.properties) return nullptr;
  const PlanProperties& properties = *plan.properties;
  Json out{{"reason", plan_reason(plan)}};
  out["waves"] =
      properties.concurrent_items > 0
          ? Json(static_cast<double>(properties.work_items) / static_cast<double>(properties.concurrent_items))
          : Json(nullptr);
  out["pieces"] = properties.work_items;
  out["at_once"] = properties.concurrent_items;
  out["beyond_edges"] = properties.outside_fraction;
  out["least_bytes"] = properties.min_bytes;
  out["unaligned"] = Json::array();
  for (const PlanProperties::UnalignedOperand& lines : properties.unaligned_operands)
    out["unaligned"].push_back({{"operand", operand_name(plan, lines)},
                                {"line_bytes", lines.line_stride_bytes},
                                {"start_multiple_bytes", lines.alignment},
                                {"copied_bytes", lines.copy_traffic_bytes}});
  out["single_stores"] = properties.element_stores;
  out["padded"] = nullptr;
  if (properties.padded)
    out["padded"] = {{"m", properties.padded->size.m},
                     {"n", properties.padded->size.n},
                     {"k", properties.padded->size.k},
                     {"predicted_s", properties.padded->predicted_s}};
  return out;
}

}  // namespace ridge
