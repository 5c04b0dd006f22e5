#include "ridge/report/plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "ridge/base/contains.h"
#include "ridge/base/string_util.h"
#include "ridge/report/json_values.h"
#include "ridge/report/table.h"

namespace ridge {
namespace {
Json plan_json(const TilePlan& p) {
  Json out{{"kernel", p.kernel}};
  out["tile"] = p.tile_m ? Json{{"m", *p.tile_m}, {"n", *p.tile_n}, {"k", *p.tile_k}} : Json(nullptr);
  out["stages"] = or_null(p.stages);
  out["split"] = or_null(p.split);
  out["split_mode"] = or_null(p.split_description.name);
  out["waves"] = or_null(p.waves);
  return out;
}

std::vector<std::string> plan_row(const std::string& op, const GroupPrediction& p) {
  const Interval& t = p.predicted_s;
  return {op,
          p.plan.kernel,
          or_dash(p.plan.stages),
          or_dash(p.plan.split),
          or_dash(p.plan.waves),
          p.has_model ? format_with_prefix(t.expected, "s") : "not known",
          p.has_model ? fmt::format("{} .. {}", format_with_prefix(t.low, "s"), format_with_prefix(t.high, "s"))
                      : fmt::format("at least {}", format_with_prefix(t.low, "s")),
          format_with_prefix(static_cast<double>(p.traffic_bytes), "B"),
          format_with_prefix(static_cast<double>(p.memory_bytes), "B")};
}

GroupPrediction total_plan(const PlannedProgram& planned) {
  GroupPrediction total{.predicted_s = planned.predicted_s, .has_model = planned.has_model, .plan = {.kernel = "-"}};
  for (const GroupPrediction& op : planned.kernels) {
    total.traffic_bytes += op.traffic_bytes;
    total.memory_bytes += op.memory_bytes;
  }
  return total;
}

void add_plan(Json& op, const GroupPrediction& p) {
  op["predicted_s"] = predicted_json(p.predicted_s, p.has_model);
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
  op["facts"] = plan_properties_json(p);
}

const std::string& statement_name(const Report& report, int statement) {
  return report.explanation.ops[statement].work.name;
}

// Returns the results that a kernel never stores.
std::vector<std::string> internal_results(const Report& report, const FusionGroup& group) {
  std::vector<std::string> out;
  for (const int s : group.statements)
    if (contains(group.internal_tensors, report.planned->results[s])) out.push_back(statement_name(report, s));
  return out;
}

Json group_json(const Report& report, std::size_t index) {
  const FusionGroup& group = report.planned->fusion.groups[index];
  Json out{{"kind", name(group.kind)}, {"ops", Json::array()}, {"inside", internal_results(report, group)}};
  for (const int s : group.statements) out["ops"].push_back(statement_name(report, s));
  const GroupPrediction& plan = report.planned->kernels[index];
  out["kernel"] = plan.plan.kernel;
  out["predicted_s"] = predicted_json(plan.predicted_s, plan.has_model);
  out["bytes_before"] = group.bytes_before;
  out["bytes_after"] = group.bytes_after;
  out["traffic_bytes"] = plan.traffic_bytes;
  out["alive_bytes"] = group.live_bytes;
  return out;
}

// "u, g, y in one kernel: 29 MB instead of 88 MB; u, g are never stored", fusion boundaries and peak memory.
std::string fusion_text(const Report& report) {
  std::string out;
  const auto bytes = [](std::int64_t n) { return format_with_prefix(static_cast<double>(n), "B"); };
  for (const FusionGroup& group : report.planned->fusion.groups) {
    if (group.statements.size() == 1) continue;
    const std::vector<std::string> internal = internal_results(report, group);
    out += fmt::format("{} in one kernel: {} instead of {}", group_name(report.explanation, group),
                       bytes(group.bytes_after), bytes(group.bytes_before));
    if (!internal.empty())
      out += fmt::format("; {} {} never stored", fmt::join(internal, ", "), internal.size() == 1 ? "is" : "are");
    std::vector<std::string> recomputed;
    for (const int s : group.recomputed) recomputed.push_back(statement_name(report, s));
    if (!recomputed.empty())
      out += fmt::format("; {} {} recomputed", fmt::join(recomputed, ", "), recomputed.size() == 1 ? "is" : "are");
    out += "\n";
  }
  for (const FusionBoundary& boundary : report.planned->fusion.boundaries)
    out += fmt::format("{} | {}: {}\n", statement_name(report, boundary.producer),
                       statement_name(report, boundary.consumer), boundary.reason);
  const FusionPlan& f = report.planned->fusion;
  if (f.live_bytes_after != f.live_bytes_before)
    out += fmt::format("peak memory of tensors: {}; with one kernel per statement {}\n", bytes(f.live_bytes_after),
                       bytes(f.live_bytes_before));
  if (!report.planned->has_model) out += "plain loops take tens to thousands of times their bound\n";
  if (!report.planned->remark.empty()) out += report.planned->remark + "\n";
  return out;
}

std::string kernel_name(const Report& report, std::size_t kernel) {
  return truncate_text(group_name(report.explanation, report.planned->fusion.groups[kernel]), 24);
}

// Returns why each kernel takes its time, its split of k, its copies, and the alternatives.
std::string kernel_details_text(const Report& report, const TextStyler& styled) {
  std::string out;
  for (std::size_t i = 0; i < report.planned->kernels.size(); ++i) {
    const GroupPrediction& plan = report.planned->kernels[i];
    if (const std::string reason = plan_reason(plan); !reason.empty())
      out += fmt::format("{}: {}\n", kernel_name(report, i), reason);
    if (!plan.plan.split_description.meaning.empty())
      out += fmt::format("{}, split {}: {}\n", kernel_name(report, i), or_dash(plan.plan.split),
                         plan.plan.split_description.meaning);
    if (!plan.overheads.empty())
      out += fmt::format("{} takes {}\n", kernel_name(report, i), overheads_text(plan.roofline_s, plan.overheads));
    for (const std::string& copy : plan.copies) out += fmt::format("{} copies {}\n", kernel_name(report, i), copy);
    if (plan.candidates.empty()) continue;
    std::vector<std::vector<std::string>> rejected;
    for (const Candidate& candidate : plan.candidates)
      rejected.push_back({fmt::format("  {}, split {}", candidate.plan.kernel, or_dash(candidate.plan.split)),
                          format_with_prefix(candidate.predicted_s, "s"), candidate.why});
    out += fmt::format("{} was chosen over\n{}", kernel_name(report, i),
                       styled.format_rows(rejected, {false, true, false}, {"kernel", "time", "reason"}));
  }
  return out;
}

const std::vector<bool> right_aligned{false, false, true, true, true, true, true, true, true};

// Returns the kernel's plan for its last statement, and a plan named "in NAME" for its other statements.
GroupPrediction plan_of_statement(const Report& report, std::size_t group, int statement) {
  const std::vector<int>& statements = report.planned->fusion.groups[group].statements;
  if (statement == statements.back()) return report.planned->kernels[group];
  return {.plan = {.kernel = "in " + statement_name(report, statements.back())}};
}

std::vector<std::string> csv_plan_row(const std::string& group, const GroupPrediction& p) {
  const auto number_or_empty = [](const auto& value) { return value ? std::to_string(*value) : ""; };
  return {group,
          p.plan.kernel,
          number_or_empty(p.plan.tile_m),
          number_or_empty(p.plan.tile_n),
          number_or_empty(p.plan.tile_k),
          number_or_empty(p.plan.stages),
          number_or_empty(p.plan.split),
          number_or_empty(p.plan.waves),
          fmt::format("{}", p.predicted_s.low),
          p.has_model ? fmt::format("{}", p.predicted_s.expected) : "",
          p.has_model ? fmt::format("{}", p.predicted_s.high) : "",
          std::to_string(p.traffic_bytes),
          std::to_string(p.memory_bytes)};
}

}  // namespace

std::string group_name(const Explanation& explanation, const FusionGroup& group) {
  std::string out;
  for (const int s : group.statements) out += (out.empty() ? "" : ", ") + explanation.ops[s].work.name;
  return out;
}

std::string overheads_text(double roofline_s, const std::vector<Overhead>& overheads) {
  double all = roofline_s;
  for (const Overhead& each : overheads) all += each.seconds;
  std::string out = fmt::format("{}: roof {}", format_with_prefix(all, "s"), format_with_prefix(roofline_s, "s"));
  for (const Overhead& each : overheads)
    out += fmt::format(", {} {}{}", each.cause, each.seconds < 0 ? "-" : "",
                       format_with_prefix(std::abs(each.seconds), "s"));
  return out;
}

Json overheads_json(double roofline_s, const std::vector<Overhead>& overheads) {
  Json out{{"roof_s", roofline_s}, {"causes", Json::array()}};
  for (const Overhead& each : overheads) out["causes"].push_back({{"cause", each.cause}, {"seconds", each.seconds}});
  return out;
}

void add_plans(Json& out, const Report& report) {
  const PlannedProgram& planned = *report.planned;
  out["groups"] = Json::array();
  for (std::size_t g = 0; g < planned.kernels.size(); ++g) {
    for (const int s : planned.fusion.groups[g].statements) {
      Json& op = out["ops"][s];
      add_plan(op, plan_of_statement(report, g, s));
      op["group"] = g;
      const GroupPrediction& plan = planned.kernels[g];
      if (!plan.overheads.empty() && s == planned.fusion.groups[g].statements.back())
        op["lost"] = overheads_json(plan.roofline_s, plan.overheads);
    }
    out["groups"].push_back(group_json(report, g));
  }
  out["seams"] = Json::array();
  for (const FusionBoundary& boundary : planned.fusion.boundaries)
    out["seams"].push_back({{"from", statement_name(report, boundary.producer)},
                            {"to", statement_name(report, boundary.consumer)},
                            {"why", boundary.reason}});
  out["alive_bytes"] = {{"before", planned.fusion.live_bytes_before}, {"after", planned.fusion.live_bytes_after}};
  out["total"]["predicted_s"] = predicted_json(planned.predicted_s, planned.has_model);
  out["between_kernels_s"] = static_cast<double>(planned.kernels.size()) * planned.switch_s;
  out["library"] = name(report.library);
  if (!planned.remark.empty()) out["plan_remark"] = planned.remark;
}

Cells plan_cells(const Report& report) {
  Cells out(report.explanation.ops.size() + 2);
  out.front() = {"group", "kernel",          "tile_m",      "tile_n",           "tile_k",        "stages",      "split",
                 "waves", "predicted_low_s", "predicted_s", "predicted_high_s", "traffic_bytes", "memory_bytes"};
  for (std::size_t g = 0; g < report.planned->kernels.size(); ++g)
    for (const int s : report.planned->fusion.groups[g].statements)
      out[static_cast<std::size_t>(s) + 1] = csv_plan_row(std::to_string(g), plan_of_statement(report, g, s));
  GroupPrediction total = total_plan(*report.planned);
  total.plan.kernel.clear();
  out.back() = csv_plan_row("", total);
  return out;
}

Cells plan_table(const Report& report) {
  const std::vector<GroupPrediction>& plans = report.planned->kernels;
  Cells rows{{"op", "kernel", "stages", "split", "waves", "expected", "low .. high", "traffic", "from memory"}};
  for (std::size_t i = 0; i < plans.size(); ++i) rows.push_back(plan_row(kernel_name(report, i), plans[i]));
  const double switches_s = static_cast<double>(plans.size()) * report.planned->switch_s;
  if (switches_s > 0)
    rows.push_back({"between kernels", "-", "-", "-", "-", format_with_prefix(switches_s, "s"), "-", "-", "-"});
  if (plans.size() > 1) rows.push_back(plan_row("total", total_plan(*report.planned)));
  return rows;
}

std::string plan_text(const Report& report, const TextStyler& styled) {
  const TableLayout layout{right_aligned, {"from memory", "stages", "split", "traffic", "waves", "low .. high"}};
  return "\n" + styled.format_table(plan_table(report), layout) + fusion_text(report) +
         kernel_details_text(report, styled);
}

std::string plan_markdown(const Report& report) {
  std::string out = "\n" + markdown_table(plan_table(report), right_aligned);
  const std::string fusion = fusion_text(report);
  if (!fusion.empty()) out += "\n";
  for (std::size_t at = 0; at < fusion.size(); at = fusion.find('\n', at) + 1)
    out += "- " + fusion.substr(at, fusion.find('\n', at) + 1 - at);
  const std::string details = kernel_details_text(report, TextStyler({}));
  return details.empty() ? out : out + "\n```\n" + details + "```\n";
}

}  // namespace ridge
