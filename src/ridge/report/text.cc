// The text report: summary, table of operations with their cost and limiter, thresholds, and the sources of the
// machine's numbers. Formulas are shown for programs of one operation or with open dimensions; otherwise only with
// --all. "-" marks an unknown value.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "ridge/report/parts/assumptions.h"
#include "ridge/report/parts/used_peaks.h"
#include "ridge/report/plan.h"
#include "ridge/report/text_parts.h"

namespace ridge {
namespace {

// "mesh  X = 4  Y = 2: numbers are for one of 8 devices"
std::string mesh_line(const Explanation& e) {
  if (e.mesh_names.empty()) return {};
  std::string out = "mesh";
  std::int64_t devices = 1;
  for (const std::string& axis : e.mesh_names) {
    out += fmt::format("  {} = {}", axis, e.dims.at(axis));
    devices *= e.dims.at(axis);
  }
  return out + fmt::format(": numbers are for one of {} devices\n", group_digits(devices));
}

std::string header_text(const Report& report, const TextStyler& styled) {
  const Explanation& e = report.explanation;
  std::string out = styled.bold(fmt::format("{}  on {}", report.title, e.machine.name));
  if (!e.machine.title.empty() && e.machine.title != e.machine.name) out += fmt::format(" ({})", e.machine.title);
  const std::string dims = dims_text(e);
  out += "\n";
  if (!dims.empty()) out += "dims" + dims + "\n";
  if (!report.narrow_dtype.empty())
    out += fmt::format("weights and the tensors that they multiply stored as {}\n", report.narrow_dtype);
  if (!report.weights_dtype.empty()) out += fmt::format("weights stored as {}\n", report.weights_dtype);
  if (e.split) out += fmt::format("one of {} chips, {} split\n", e.split->chips, format_dims(*e.split));
  out += mesh_line(e);
  for (const std::string& warning : report.warnings) out += styled.highlight_warning(warning) + "\n";
  return has_unknown_sizes(e) ? out : out + "\n";
}

std::vector<std::string> prediction_row(const Explanation& e, const std::string& op, const Prediction& p) {
  const auto share = time_fraction(e, p);
  return {op,
          share ? format_percent(*share) : "-",
          unit_or_dash(p.flops, work_unit(p.work)),
          unit_or_dash(p.bytes, "B"),
          number_or_dash(p.intensity),
          number_or_dash(p.ridge),
          limiter_text(p),
          unit_or_dash(p.time_lower_s, "s"),
          unit_or_dash(p.time_upper_s, "s"),
          unit_or_dash(p.time_network_s, "s"),
          unit_or_dash(p.bytes_sent, "B")};
}

// Returns the formulas of total and fused program: work, bytes, the r that is used, and thresholds.
std::string sum_formulas_text(const Report& report, const TextStyler& styled, bool all) {
  const Explanation& e = report.explanation;
  std::string out;
  for (const Prediction* p : sums_with_thresholds(e)) {
    out += "\n" + styled.bold(p->work.name) + "\n";
    TextRows rows{{"  work", fmt::format("{} {}", p->work.flops.to_string(e.dim_names), work_unit(p->work))},
                  {"  bytes", p->work.bytes().to_string(e.dim_names)}};
    if (!p->work.bytes_sent.is_zero()) rows.push_back({"  sent", p->work.bytes_sent.to_string(e.dim_names)});
    for (const FlopWeight& w : p->flop_weights)
      rows.push_back({"  weight", fmt::format("{}: one FLOP on {} {} takes as long as this many FLOPs at r's peak",
                                              format_significant(w.weight, 5), ridge::unit_name(w.peak.unit),
                                              ridge::dtype_name(w.peak.dtype))});
    rows.push_back({"  r", fmt::format("{} FLOP/B", format_significant(p->thresholds.front().ratio, 5))});
    for (const Threshold& t : p->thresholds)
      if (all || is_shown_dim(report, t.dim)) rows.push_back({"  " + t.dim, threshold_text(t)});
    out += align_columns(rows, {false, false});
  }
  return out;
}

std::string missing_thresholds_text(const Explanation& e) {
  if (e.thresholds_skipped)
    return "thresholds are omitted: the squared dimension counts of the statements add up to more than " +
           group_digits(static_cast<long long>(max_threshold_work)) + "; explain fewer statements\n";
  std::string out;
  if (!e.unsolved.empty())
    out += fmt::format(
        "some operations have no threshold for {}: sizes without a value decide, others fix it, or a mask relates "
        "two\n",
        fmt::join(e.unsolved, ", "));
  return out;
}

// Returns " = 62.06", or an empty string if the formula is that number.
std::string decimal_text(const Prediction& p) {
  if (!p.intensity || format_significant(*p.intensity) == p.intensity_formula) return {};
  return " = " + format_significant(*p.intensity);
}

std::string formulas_text(const Report& report, const TextStyler& styled, bool all) {
  const Explanation& e = report.explanation;
  std::string out;
  for (const Prediction& p : e.ops) {
    out += "\n" + styled.bold(p.work.text) + "\n";
    TextRows rows{{"  work", fmt::format("{} {}", p.work.flops.to_string(e.dim_names), work_unit(p.work))},
                  {"  bytes", p.work.bytes().to_string(e.dim_names)}};
    if (!p.intensity_formula.empty())
      rows.push_back({fmt::format("  {}/B", work_unit(p.work)), p.intensity_formula + decimal_text(p)});
    if (!p.work.bytes_sent.is_zero()) rows.push_back({"  sent", p.work.bytes_sent.to_string(e.dim_names)});
    if (has_unknown_sizes(e) && p.ridge)
      rows.push_back({"  ridge", fmt::format("{} {}/B", format_significant(*p.ridge), work_unit(p.work))});
    for (const Threshold& t : p.thresholds)
      if (all || is_shown_dim(report, t.dim)) rows.push_back({"  " + t.dim, threshold_text(t)});
    if (!p.work.collective.empty()) rows.push_back({"  network", p.work.collective});
    if (!p.missing.empty()) rows.push_back({"  missing", p.missing + " is unknown: times exclude it"});
    out += align_columns(rows, {false, false});
  }
  return out + sum_formulas_text(report, styled, all);
}

// Returns one line per operation that communicates.
std::string collectives_text(const Report& report) {
  std::string out;
  for (std::size_t i = 0; i < report.explanation.ops.size(); ++i)
    if (const std::string& collective = report.explanation.ops[i].work.collective; !collective.empty())
      out += fmt::format("{}: {}\n", op_name(report, i), collective);
  return out;
}

// Returns the counting conventions and the options that show more.
std::string notes_text(const Report& report, bool all) {
  const Explanation& e = report.explanation;
  constexpr std::size_t width = 120;
  std::string out = "a multiply-add counts as 2 FLOPs";
  if (const std::string costs = function_costs_text(e); !costs.empty()) out += ", " + costs;
  const std::string bytes = "bytes: inputs read once, results written once";
  out += (out.size() + bytes.size() + 2 > width ? "\n" : "; ") + bytes + "\n";
  out += missing_thresholds_text(e);
  if (e.fused) {
    const std::string op_count_text =
        e.ops.size() > 1 ? fmt::format("all {} operations in one kernel; ", e.ops.size()) : "";
    out += fmt::format("fused: {}intermediates stay on chip in f32 and are never stored\n", op_count_text);
    const auto has_unit = [](const Threshold& t) { return !t.unit.empty(); };
    if (std::any_of(e.fused->thresholds.begin(), e.fused->thresholds.end(), has_unit))
      out += "fused: matrix and vector unit compute at the same time; thresholds name the unit that decides\n";
  }
  if (!all && e.ops.size() > 1 && !report.is_of_file)
    out += "--all: every formula and threshold; --steps: the derivation\n";
  return out;
}

std::string explained_text(const Report& report, const TextStyler& styled, bool all) {
  const Explanation& e = report.explanation;
  std::string out;
  if (!has_unknown_sizes(e))
    out += summary_text(report, styled) +
           styled.format_table(prediction_rows(report), {prediction_right_aligned, prediction_omit_first});
  else if (e.ops.size() > 1)
    out += "\n" + summary_text(report, styled);
  out += assumptions_text(e);
  if (report.planned) out += plan_text(report, styled);
  if (!report.is_of_file && (all || has_unknown_sizes(e) || e.ops.size() == 1))
    out += formulas_text(report, styled, all);
  else
    out += collectives_text(report) + thresholds_text(report, styled, all);
  if (all) out += work_kinds_text(e, styled) + memory_text(e);
  return out + sources_text(e, styled, all) + notes_text(report, all);
}

}  // namespace

TextRows prediction_rows(const Report& report) {
  const Explanation& e = report.explanation;
  TextRows rows{
      {"op", "of time", "work", "bytes", "FLOP/B", "ridge", "limiter", "lower", "no overlap", "network", "sent"}};
  for (const std::size_t i : ops_by_time(e)) rows.push_back(prediction_row(e, op_name(report, i), e.ops[i]));
  if (e.ops.size() > 1) rows.push_back(prediction_row(e, "total", e.total));
  if (e.fused) rows.push_back(prediction_row(e, "fused", *e.fused));
  for (auto& row : rows)
    if (!e.network) row.resize(row.size() - 2);
  return rows;
}

std::string render_text(const Report& report, const TextStyle& style) {
  const TextStyler styled(style);
  const std::string header = header_text(report, styled);
  if (!report.measured) return header + explained_text(report, styled, style.show_all);
  std::string overhead_lines;
  for (std::size_t i = 0; i < report.measured_overheads.size(); ++i)
    overhead_lines +=
        fmt::format("{} took {}\n", op_name(report, i),
                    overheads_text(report.measured_overheads[i].roofline_s, report.measured_overheads[i].overheads));
  return header + measured_text(report, styled) + "\n" +
         styled.format_table(prediction_rows(report), {prediction_right_aligned, prediction_omit_first}) +
         overhead_lines + sources_text(report.explanation, styled, style.show_all);
}

std::string_view claim_result(const ClaimCheck& check) {
  if (!check.deciding_dims.empty()) return "undecided";
  return check.right ? "right" : "wrong";
}

std::string render_text(const ClaimCheck& check) {
  std::string out = fmt::format("{}: {}\n  {}\n", claim_result(check), check.claim, check.truth);
  if (!check.operation.empty())
    out += fmt::format("  this is the threshold of {0}: write {0}.{1}, OPERATION.{1} or total.{1} to select one\n",
                       check.operation, check.claim.substr(0, check.claim.find(' ')));
  if (!check.deciding_dims.empty())
    out += fmt::format("  it depends on {}: set a value with -d {}=N\n", fmt::join(check.deciding_dims, ", "),
                       check.deciding_dims.front());
  if (!check.mistake.empty()) out += "  likely mistake: " + check.mistake + "\n";
  return out;
}

}  // namespace ridge
