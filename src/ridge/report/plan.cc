#include "ridge/report/plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

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
  out["split_mode"] = p.split_text.word.empty() ? Json(nullptr) : Json(p.split_text.word);
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
  for (const OpPlan& op : planned.kernels) {
    total.traffic_bytes += op.traffic_bytes;
    total.memory_bytes += op.memory_bytes;
  }
  return total;
}

Json interval(const Interval& t) { return {{"low", t.low}, {"expected", t.expected}, {"high", t.high}}; }

void add_plan(Json& op, const OpPlan& p) {
  op["predicted_s"] = interval(p.predicted_s);
  op["plan"] = plan_json(p.plan);
  op["traffic_bytes"] = p.traffic_bytes;
  op["memory_bytes"] = p.memory_bytes;
  op["candidates"] = Json::array();
  for (const Candidate& candidate : p.candidates) {
    Json each = plan_json(candidate.plan);
    each["predicted_s"] = candidate.predicted_s;
    each["why"] = candidate.why;
    op["candidates"].push_back(std::move(each));
  }
  if (!p.copies.empty()) op["copies"] = p.copies;
  op["facts"] = plan_facts_json(p);
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
    std::vector<std::string> again;
    for (const int s : group.again) again.push_back(op_name(report, s));
    if (!again.empty())
      out += fmt::format("; {} {} made again", fmt::join(again, ", "), again.size() == 1 ? "is" : "are");
    out += "\n";
  }
  for (const Seam& seam : report.planned->fusion.seams)
    out += fmt::format("{} | {}: {}\n", op_name(report, seam.from), op_name(report, seam.to), seam.why);
  const Fusion& f = report.planned->fusion;
  if (f.alive_after != f.alive_before)
    out += fmt::format("tensors in memory at once: at most {}, with one kernel a statement {}\n", bytes(f.alive_after),
                       bytes(f.alive_before));
  if (!report.planned->remark.empty()) out += report.planned->remark + "\n";
  return out;
}

std::string kernel_name(const Report& report, std::size_t kernel) {
  return shortened(group_name(report.explanation, report.planned->fusion.groups[kernel]), 24);
}

// Why each kernel takes what it takes, how it cuts k and what it copies first, and what it was chosen over.
std::string candidates(const Report& report) {
  std::string out;
  for (std::size_t i = 0; i < report.planned->kernels.size(); ++i) {
    const OpPlan& plan = report.planned->kernels[i];
    if (const std::string reason = plan_reason(plan); !reason.empty())
      out += fmt::format("{}: {}\n", kernel_name(report, i), reason);
    if (!plan.plan.split_text.meaning.empty())
      out += fmt::format("{}, split {}: {}\n", kernel_name(report, i), or_dash(plan.plan.split),
                         plan.plan.split_text.meaning);
    if (!plan.lost.empty())
      out += fmt::format("{} takes {}\n", kernel_name(report, i), losses_text(plan.roof_s, plan.lost));
    for (const std::string& copy : plan.copies) out += fmt::format("{} copies {}\n", kernel_name(report, i), copy);
    if (plan.candidates.empty()) continue;
    std::vector<std::vector<std::string>> lost;
    for (const Candidate& candidate : plan.candidates)
      lost.push_back({fmt::format("  {}, split {}", candidate.plan.kernel, or_dash(candidate.plan.split)),
                      engineering(candidate.predicted_s, "s"), candidate.why});
    out += fmt::format("{} was chosen over\n{}", kernel_name(report, i), aligned(lost, {false, true, false}));
  }
  return out;
}

const std::vector<bool> columns_right{false, false, true, true, true, true, true, true, true};

// Where a kernel's plan stands: at its last statement. The others say where they went.
OpPlan plan_at(const Report& report, std::size_t group, int statement) {
  const std::vector<int>& statements = report.planned->fusion.groups[group].statements;
  if (statement == statements.back()) return report.planned->kernels[group];
  return {.plan = {.kernel = "in " + op_name(report, statements.back())}};
}

std::vector<std::string> bare_row(const std::string& group, const OpPlan& p) {
  const auto bare = [](const auto& value) { return value ? std::to_string(*value) : ""; };
  return {group,
          p.plan.kernel,
          bare(p.plan.tile_m),
          bare(p.plan.tile_n),
          bare(p.plan.tile_k),
          bare(p.plan.stages),
          bare(p.plan.split),
          bare(p.plan.waves),
          fmt::format("{}", p.predicted_s.low),
          fmt::format("{}", p.predicted_s.expected),
          fmt::format("{}", p.predicted_s.high),
          std::to_string(p.traffic_bytes),
          std::to_string(p.memory_bytes)};
}

}  // namespace

std::string group_name(const Explanation& explanation, const Group& group) {
  std::string out;
  for (const int s : group.statements)
    out += (out.empty() ? "" : ", ") + explanation.ops[static_cast<std::size_t>(s)].work.name;
  return out;
}

std::string losses_text(double roof_s, const std::vector<Lost>& lost) {
  double all = roof_s;
  for (const Lost& each : lost) all += each.seconds;
  std::string out = fmt::format("{}: the roof {}", engineering(all, "s"), engineering(roof_s, "s"));
  for (const Lost& each : lost)
    out += fmt::format(", {} {}{}", each.cause, each.seconds < 0 ? "-" : "", engineering(std::abs(each.seconds), "s"));
  return out;
}

Json losses_json(double roof_s, const std::vector<Lost>& lost) {
  Json out{{"roof_s", roof_s}, {"causes", Json::array()}};
  for (const Lost& each : lost) out["causes"].push_back({{"cause", each.cause}, {"seconds", each.seconds}});
  return out;
}

void add_plans(Json& out, const Report& report) {
  const PlannedProgram& planned = *report.planned;
  out["groups"] = Json::array();
  for (std::size_t g = 0; g < planned.kernels.size(); ++g) {
    for (const int s : planned.fusion.groups[g].statements) {
      Json& op = out["ops"][static_cast<std::size_t>(s)];
      add_plan(op, plan_at(report, g, s));
      op["group"] = g;
      const OpPlan& plan = planned.kernels[g];
      if (!plan.lost.empty() && s == planned.fusion.groups[g].statements.back())
        op["lost"] = losses_json(plan.roof_s, plan.lost);
    }
    out["groups"].push_back(group_json(report, g));
  }
  out["seams"] = Json::array();
  for (const Seam& seam : planned.fusion.seams)
    out["seams"].push_back({{"from", op_name(report, seam.from)}, {"to", op_name(report, seam.to)}, {"why", seam.why}});
  out["alive_bytes"] = {{"before", planned.fusion.alive_before}, {"after", planned.fusion.alive_after}};
  out["total"]["predicted_s"] = interval(planned.predicted_s);
  out["library"] = name(report.library);
  if (!planned.remark.empty()) out["plan_remark"] = planned.remark;
}

Cells plan_cells(const Report& report) {
  Cells out(report.explanation.ops.size() + 2);
  out.front() = {"group", "kernel",          "tile_m",      "tile_n",           "tile_k",        "stages",      "split",
                 "waves", "predicted_low_s", "predicted_s", "predicted_high_s", "traffic_bytes", "memory_bytes"};
  for (std::size_t g = 0; g < report.planned->kernels.size(); ++g)
    for (const int s : report.planned->fusion.groups[g].statements)
      out[static_cast<std::size_t>(s) + 1] = bare_row(std::to_string(g), plan_at(report, g, s));
  OpPlan total = total_of(*report.planned);
  total.plan.kernel.clear();
  out.back() = bare_row("", total);
  return out;
}

Cells plan_table(const Report& report) {
  const std::vector<OpPlan>& plans = report.planned->kernels;
  Cells rows{{"op", "kernel", "stages", "split", "waves", "expected", "low .. high", "asked", "from memory"}};
  for (std::size_t i = 0; i < plans.size(); ++i) rows.push_back(row(kernel_name(report, i), plans[i]));
  if (plans.size() > 1) rows.push_back(row("total", total_of(*report.planned)));
  return rows;
}

std::string plan_text(const Report& report) {
  return "\n" + aligned(plan_table(report), columns_right) + grouping(report) + candidates(report);
}

std::string plan_markdown(const Report& report) {
  std::string out = "\n" + markdown_table(plan_table(report), columns_right);
  const std::string said = grouping(report);
  if (!said.empty()) out += "\n";
  for (std::size_t at = 0; at < said.size(); at = said.find('\n', at) + 1)
    out += "- " + said.substr(at, said.find('\n', at) + 1 - at);
  const std::string lost = candidates(report);
  return lost.empty() ? out : out + "\n```\n" + lost + "```\n";
}

}  // namespace ridge
