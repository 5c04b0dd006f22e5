#include "ridge/report/plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

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

OpPlan total_of(const PlannedProgram& planned) {
  OpPlan total{.predicted_s = planned.predicted_s, .plan = {.kernel = "-"}};
  for (const OpPlan& op : planned.kernels)
    total.traffic_bytes += op.traffic_bytes, total.memory_bytes += op.memory_bytes;
  return total;
}

Json interval(const Interval& t) { return {{"low", t.low}, {"expected", t.expected}, {"high", t.high}}; }

void add_plan(Json& op, const OpPlan& p) {
  op["predicted_s"] = interval(p.predicted_s);
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

const std::string& op_name(const Report& report, int statement) {
  return report.explanation.ops[static_cast<std::size_t>(statement)].work.name;
}

// The results that a kernel keeps inside.
std::vector<std::string> inside(const Report& report, const Group& group) {
  std::vector<std::string> out;
  for (const int s : group.statements)
    if (std::find(group.inside.begin(), group.inside.end(), report.planned->results[static_cast<std::size_t>(s)]) !=
        group.inside.end())
      out.push_back(op_name(report, s));
  return out;
}

Json group_json(const Report& report, std::size_t index) {
  const Group& group = report.planned->fusion.groups[index];
  Json out{{"kind", name(group.kind)}, {"ops", Json::array()}, {"inside", inside(report, group)}};
  for (const int s : group.statements) out["ops"].push_back(op_name(report, s));
  const OpPlan& plan = report.planned->kernels[index];
  out["kernel"] = plan.plan.kernel;
  out["predicted_s"] = interval(plan.predicted_s);
  out["bytes_before"] = group.bytes_before;
  out["bytes_after"] = group.bytes_after;
  out["traffic_bytes"] = plan.traffic_bytes;
  out["alive_bytes"] = group.alive_bytes;
  return out;
}

// "y: u, g, y in one kernel move 29 MB, one by one 88 MB; u, g are never stored"
std::string grouping(const Report& report) {
  std::string out;
  const auto bytes = [](std::int64_t n) { return engineering(static_cast<double>(n), "B"); };
  for (const Group& group : report.planned->fusion.groups) {
    if (group.statements.size() == 1) continue;
    const std::vector<std::string> kept = inside(report, group);
    out += fmt::format("{} in one kernel: {} instead of {}", group_name(report.explanation, group),
                       bytes(group.bytes_after), bytes(group.bytes_before));
    if (!kept.empty())
      out += fmt::format("; {} {} never stored", fmt::join(kept, ", "), kept.size() == 1 ? "is" : "are");
    out += "\n";
  }
  for (const Seam& seam : report.planned->fusion.seams)
    out += fmt::format("{} | {}: {}\n", op_name(report, seam.from), op_name(report, seam.to), seam.why);
  const Fusion& f = report.planned->fusion;
  if (f.alive_after != f.alive_before)
    out += fmt::format("tensors in memory at once: at most {}, with one kernel a statement {}\n", bytes(f.alive_after),
                       bytes(f.alive_before));
  return out;
}

}  // namespace

std::string group_name(const Explanation& explanation, const Group& group) {
  std::string out;
  for (const int s : group.statements)
    out += (out.empty() ? "" : ", ") + explanation.ops[static_cast<std::size_t>(s)].work.name;
  return out;
}

// A kernel's plan stands at its last statement; the others say where they went.
void add_plans(Json& out, const Report& report) {
  const PlannedProgram& planned = *report.planned;
  out["groups"] = Json::array();
  for (std::size_t g = 0; g < planned.kernels.size(); ++g) {
    const std::vector<int>& statements = planned.fusion.groups[g].statements;
    for (const int s : statements) {
      const bool last = s == statements.back();
      const OpPlan elsewhere{.plan = {.kernel = "in " + op_name(report, statements.back())}};
      add_plan(out["ops"][static_cast<std::size_t>(s)], last ? planned.kernels[g] : elsewhere);
      out["ops"][static_cast<std::size_t>(s)]["group"] = g;
    }
    out["groups"].push_back(group_json(report, g));
  }
  out["seams"] = Json::array();
  for (const Seam& seam : planned.fusion.seams)
    out["seams"].push_back({{"from", op_name(report, seam.from)}, {"to", op_name(report, seam.to)}, {"why", seam.why}});
  out["alive_bytes"] = {{"before", planned.fusion.alive_before}, {"after", planned.fusion.alive_after}};
  out["total"]["predicted_s"] = interval(planned.predicted_s);
  out["library"] = name(report.library);
}

std::string plan_text(const Report& report) {
  const std::vector<OpPlan>& plans = report.planned->kernels;
  std::vector<std::vector<std::string>> rows{
      {"op", "kernel", "stages", "split", "waves", "expected", "low .. high", "asked", "from memory"}};
  std::string below;
  for (std::size_t i = 0; i < plans.size(); ++i) {
    const std::string op = shortened(group_name(report.explanation, report.planned->fusion.groups[i]), 24);
    rows.push_back(row(op, plans[i]));
    for (const std::string& copy : plans[i].copies) below += fmt::format("{} copies {}\n", op, copy);
    if (plans[i].losers.empty()) continue;
    std::vector<std::vector<std::string>> lost;
    for (const Loser& loser : plans[i].losers)
      lost.push_back({fmt::format("  {}, split {}", loser.plan.kernel, or_dash(loser.plan.split)),
                      engineering(loser.predicted_s, "s"), loser.why});
    below += fmt::format("{} was chosen over\n{}", op, aligned(lost, {false, true, false}));
  }
  if (plans.size() > 1) rows.push_back(row("total", total_of(*report.planned)));
  return "\n" + aligned(rows, {false, false, true, true, true, true, true, true, true}) + grouping(report) + below;
}

}  // namespace ridge
