#include "ridge/report/plan.h"

#include <fmt/format.h>

#include "ridge/base/text.h"

namespace ridge {
namespace {

using Json = nlohmann::ordered_json;
template <class T> Json or_null(const std::optional<T>& value) { return value ? Json(*value) : Json(nullptr); }
template <class T> std::string or_dash(const std::optional<T>& value) { return value ? std::to_string(*value) : "-"; }

Json plan_json(const TilePlan& p) {
  Json out{{"kernel", p.kernel}};
  out["tile"] = p.tile_m ? Json{{"m", *p.tile_m}, {"n", *p.tile_n}, {"k", *p.tile_k}} : Json(nullptr);
  out["stages"] = or_null(p.stages);
  out["split"] = or_null(p.split);
  out["waves"] = or_null(p.waves);
  return out;
}

std::vector<std::string> row(const std::string& op, const OpPlan& p) {
  const Interval& t = p.predicted_s;
  return {op,
          p.plan.kernel,
          or_dash(p.plan.stages),
          or_dash(p.plan.split),
          or_dash(p.plan.waves),
          engineering(t.expected, "s"),
          fmt::format("{} .. {}", engineering(t.low, "s"), engineering(t.high, "s")),
          engineering(static_cast<double>(p.traffic_bytes), "B"),
          engineering(static_cast<double>(p.memory_bytes), "B")};
}

}  // namespace

void add_plan(Json& op, const OpPlan& p) {
  op["predicted_s"] = {{"low", p.predicted_s.low}, {"expected", p.predicted_s.expected}, {"high", p.predicted_s.high}};
  op["plan"] = plan_json(p.plan);
  op["traffic_bytes"] = p.traffic_bytes;
  op["memory_bytes"] = p.memory_bytes;
  op["losers"] = Json::array();
  for (const Loser& loser : p.losers) {
    Json each = plan_json(loser.plan);
    each["predicted_s"] = loser.predicted_s;
    each["why"] = loser.why;
    op["losers"].push_back(std::move(each));
  }
  if (!p.copies.empty()) op["copies"] = p.copies;
}

std::string plan_text(const Report& report) {
  const std::vector<OpPlan>& plans = *report.plans;
  std::vector<std::vector<std::string>> rows{
      {"op", "kernel", "stages", "split", "waves", "expected", "low .. high", "asked", "from memory"}};
  std::string below;
  for (std::size_t i = 0; i < plans.size(); ++i) {
    const std::string op = shortened(report.explanation.ops[i].work.name, 24);
    rows.push_back(row(op, plans[i]));
    for (const std::string& copy : plans[i].copies) below += fmt::format("{} copies {}\n", op, copy);
    if (plans[i].losers.empty()) continue;
    std::vector<std::vector<std::string>> lost;
    for (const Loser& loser : plans[i].losers)
      lost.push_back({fmt::format("  {}, split {}", loser.plan.kernel, or_dash(loser.plan.split)),
                      engineering(loser.predicted_s, "s"), loser.why});
    below += fmt::format("{} was chosen over\n{}", op, aligned(lost, {false, true, false}));
  }
  return "\n" + aligned(rows, {false, false, true, true, true, true, true, true, true}) + below;
}

}  // namespace ridge
