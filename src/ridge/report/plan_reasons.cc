// Why a planned product takes what it takes: waves and what is left of them, work beyond the tiles' edges, bytes from
// memory beside the least, and lines that do not start where the device reads them.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "ridge/base/text.h"
#include "ridge/report/plan.h"

namespace ridge {
namespace {

std::string bytes(double count) { return engineering(count, "B"); }

// "128 tiles of 128 x 256, 132 at once: 0.97 of one wave"
std::string waves(const OpPlan& plan) {
  const PlanFacts& facts = *plan.facts;
  if (!plan.plan.tile_m) return fmt::format("{} tiles on {} threads", facts.pieces, facts.at_once);  // a CPU
  const double share = static_cast<double>(facts.pieces) / static_cast<double>(facts.at_once);
  const std::string pieces = plan.plan.split.value_or(1) > 1 ? "pieces of tiles" : "tiles";
  const std::string out = fmt::format("{} {} of {} x {}, {} at once: ", facts.pieces, pieces, *plan.plan.tile_m,
                                      *plan.plan.tile_n, facts.at_once);
  const std::int64_t whole = (facts.pieces + facts.at_once - 1) / facts.at_once;
  return whole == 1 ? out + fmt::format("{:.2f} of one wave", share)
                    : out + fmt::format("{:.2f} waves, so {}", share, whole);
}

std::string beyond(const PlanFacts& facts) {
  if (facts.beyond_edges < 0.0005) return "no work beyond the edges";
  return fmt::format("{:.1f} % of the work beyond the edges", 100 * facts.beyond_edges);
}

// "58.80 MB from memory, 25.19 MB at least"
std::string moved(const OpPlan& plan) {
  const double least = plan.facts->least_bytes, from_memory = static_cast<double>(plan.memory_bytes);
  if (from_memory < 1.005 * least) return fmt::format("{} from memory, the least", bytes(from_memory));
  return fmt::format("{} from memory, {} at least", bytes(from_memory), bytes(least));
}

std::string operand(const OpPlan& plan, const PlanFacts::Lines& lines) {
  const auto at = static_cast<std::size_t>(lines.operand);
  return at < plan.operands.size() ? plan.operands[at] : "an operand";
}

// "lines of X and Y (4098 B) start at multiples of 2 B, not of 16, so they are copied first, 33.59 MB; …"
std::string unaligned(const OpPlan& plan) {
  const PlanFacts& facts = *plan.facts;
  std::vector<std::string> copied, parted;
  std::int64_t copied_bytes = 0;
  for (const PlanFacts::Lines& lines : facts.lines) {
    const std::string text =
        fmt::format("{} ({} B, at multiples of {})", operand(plan, lines), lines.bytes, lines.start);
    (lines.copied_bytes > 0 ? copied : parted).push_back(text);
    copied_bytes += lines.copied_bytes;
  }
  std::vector<std::string> out;
  if (!copied.empty())
    out.push_back(fmt::format("lines of {} do not start at multiples of {} B, so {} copied first, which moves {}",
                              fmt::join(copied, " and "), facts.least_line, copied.size() == 1 ? "it is" : "they are",
                              bytes(static_cast<double>(copied_bytes))));
  if (!parted.empty())
    out.push_back(fmt::format("lines of {} do not start at multiples of 128 B: each takes a memory line more",
                              fmt::join(parted, " and ")));
  if (facts.single_stores)
    out.push_back(fmt::format("the result's lines of {} B start anywhere, so its elements are stored one by one",
                              facts.result_line_bytes));
  return fmt::format("{}", fmt::join(out, "; "));
}

std::string padded(const OpPlan& plan) {
  if (!plan.facts->padded) return {};
  const PlanFacts::Padded& p = *plan.facts->padded;
  return fmt::format("padded to {} x {} x {}: {} in place of {}", p.m, p.n, p.k, engineering(p.predicted_s, "s"),
                     engineering(plan.predicted_s.expected, "s"));
}

}  // namespace

std::string plan_reason(const OpPlan& plan) {
  if (!plan.facts) return {};
  std::vector<std::string> parts;
  if (plan.facts->pieces > 0) parts.insert(parts.end(), {waves(plan), beyond(*plan.facts)});
  parts.push_back(moved(plan));
  for (const std::string& more : {unaligned(plan), padded(plan)})
    if (!more.empty()) parts.push_back(more);
  return fmt::format("{}", fmt::join(parts, "; "));
}

nlohmann::ordered_json plan_facts_json(const OpPlan& plan) {
  using Json = nlohmann::ordered_json;
  if (!plan.facts) return nullptr;
  const PlanFacts& facts = *plan.facts;
  Json out{{"reason", plan_reason(plan)}};
  out["waves"] =
      facts.at_once > 0 ? Json(static_cast<double>(facts.pieces) / static_cast<double>(facts.at_once)) : Json(nullptr);
  out["pieces"] = facts.pieces;
  out["at_once"] = facts.at_once;
  out["beyond_edges"] = facts.beyond_edges;
  out["least_bytes"] = facts.least_bytes;
  out["unaligned"] = Json::array();
  for (const PlanFacts::Lines& lines : facts.lines)
    out["unaligned"].push_back({{"operand", operand(plan, lines)},
                                {"line_bytes", lines.bytes},
                                {"start_multiple_bytes", lines.start},
                                {"copied_bytes", lines.copied_bytes}});
  out["single_stores"] = facts.single_stores;
  out["padded"] = nullptr;
  if (facts.padded)
    out["padded"] = {{"m", facts.padded->m},
                     {"n", facts.padded->n},
                     {"k", facts.padded->k},
                     {"predicted_s", facts.padded->predicted_s}};
  return out;
}

}  // namespace ridge
