#include "ridge/report/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "ridge/base/contains.h"
#include "ridge/report/json_values.h"
#include "ridge/report/parts/tables.h"
#include "ridge/report/text_parts.h"

namespace ridge {
namespace {

std::vector<const Report*> sort_fastest_first(const std::vector<Report>& reports) {
  std::vector<const Report*> out;
  for (const Report& report : reports) out.push_back(&report);
  const auto seconds = [](const Report* report) {
    return report->explanation.total.time_lower_s.value_or(std::numeric_limits<double>::infinity());
  };
  std::stable_sort(out.begin(), out.end(), [&](auto* a, auto* b) { return seconds(a) < seconds(b); });
  return out;
}

std::string largest_op_text(const Report& report) {
  const Explanation& e = report.explanation;
  if (e.ops.size() < 2) return "";
  const std::size_t largest_op = ops_by_time(e).front();
  const auto share = time_fraction(e, e.ops[largest_op]);
  return share ? fmt::format("{} {}", op_name(report, largest_op), format_percent(*share)) : "-";
}

std::string ratio_cell(const std::optional<double>& seconds, const std::optional<double>& min_seconds,
                       NumberStyle style) {
  const bool is_known = seconds && min_seconds && *min_seconds > 0;
  if (style == NumberStyle::bare)
    return format_number(is_known ? std::optional(*seconds / *min_seconds) : std::nullopt, "", style);
  return is_known ? format_significant(*seconds / *min_seconds, 3) : "-";
}

std::string limiter_cell(const Prediction& p, NumberStyle style) {
  return style == NumberStyle::bare && !p.limiter ? std::string() : limiter_text(p);
}

// "b.ridge takes 1.31 times as long as a.ridge (95 % confidence: 1.28 to 1.33, 41 pairs)"
std::string ratio_line(const Report& first, const Report& second, const MedianInterval& ratio) {
  const std::string interval = fmt::format("(95 % confidence: {} to {}, {} pairs)", format_significant(ratio.low, 3),
                                           format_significant(ratio.high, 3), ratio.samples);
  if (ratio.low <= 1 && ratio.high >= 1)
    return fmt::format("no significant difference: {} takes {} times as long as {} {}\n", second.title,
                       format_significant(ratio.median, 3), first.title, interval);
  return fmt::format("{} takes {} times as long as {} {}\n", second.title, format_significant(ratio.median, 3),
                     first.title, interval);
}

std::string outlier_line(const Report& report) {
  const Statistics& time = report.measured->total.time;
  if (time.outliers == 0) return {};
  return fmt::format("outliers: {} in {} of {} runs, the longest {}\n", report.title, time.outliers, time.runs,
                     format_with_prefix(time.max, "s"));
}

}  // namespace

Cells comparison_table(const Report& first, const Report& second, NumberStyle style) {
  const bool is_bare = style == NumberStyle::bare;
  const auto label = [](const Report& r, const Report& other) {
    return r.title == other.title ? r.explanation.machine.name : r.title;
  };
  Cells cells{{"op", is_bare ? "quantity" : "", label(first, second), label(second, first), "second / first"}};
  const auto add = [&](const Prediction& a, const Prediction& b) {
    const auto row = [&](const char* what, const char* column, const auto& x, const auto& y, std::string_view unit) {
      const bool both = x && y && *x != 0;
      const auto ratio = both ? std::optional(static_cast<double>(*y) / static_cast<double>(*x)) : std::nullopt;
      cells.push_back({a.work.name, is_bare ? column : what, format_number(x, unit, style),
                       format_number(y, unit, style), format_number(ratio, "", style)});
    };
    row("work", "flops", a.flops, b.flops, "FLOP");
    row("bytes", "bytes", a.bytes, b.bytes, "B");
    row("FLOP/B", "intensity", a.intensity, b.intensity, "");
    row("ridge", "ridge", a.ridge, b.ridge, "");
    cells.push_back({a.work.name, "limiter", limiter_cell(a, style), limiter_cell(b, style), ""});
    row("lower", "time_lower_s", a.time_lower_s, b.time_lower_s, "s");
    row("no overlap", "time_upper_s", a.time_upper_s, b.time_upper_s, "s");
  };
  for (const Prediction& a : first.explanation.ops)
    for (const Prediction& b : second.explanation.ops)
      if (a.work.name == b.work.name) add(a, b);
  if (first.explanation.ops.size() > 1 || second.explanation.ops.size() > 1)
    add(first.explanation.total, second.explanation.total);
  return cells;
}

std::string comparison_notes(const Report& first, const Report& second) {
  std::string out;
  for (const std::string& remark : first.explanation.remarks)
    if (contains(second.explanation.remarks, remark)) out += remark + "\n";
  return out;
}

std::string render_comparison_json(const Report& first, const Report& second) {
  const Json out{{"schema", "ridge.against/1"},
                 {"reports", {Json::parse(render_json(first)), Json::parse(render_json(second))}}};
  return out.dump(2) + "\n";
}

Cells ranking_table(const std::vector<Report>& reports, NumberStyle style) {
  const bool is_bare = style == NumberStyle::bare;
  Cells cells{{"machine", "limiter", "lower", "no overlap", "vs the fastest", "fused", "largest"}};
  if (is_bare)
    cells = {{"machine", "limiter", "time_lower_s", "time_upper_s", "over_fastest", "fused_time_lower_s", "largest_op",
              "largest_op_fraction", "unavailable"}};
  const std::vector<const Report*> order = sort_fastest_first(reports);
  for (const Report* report : order) {
    const Explanation& e = report->explanation;
    cells.push_back({e.machine.name, limiter_cell(e.total, style), format_number(e.total.time_lower_s, "s", style),
                     format_number(e.total.time_upper_s, "s", style),
                     ratio_cell(e.total.time_lower_s, order.front()->explanation.total.time_lower_s, style),
                     format_number(e.fused ? e.fused->time_lower_s : std::nullopt, "s", style)});
    if (!is_bare) {
      cells.back().push_back(report->unavailable.empty() ? largest_op_text(*report) : report->unavailable);
      continue;
    }
    const std::optional<std::size_t> largest = e.ops.empty() ? std::nullopt : std::optional(ops_by_time(e).front());
    cells.back().push_back(largest ? op_name(*report, *largest) : "");
    cells.back().push_back(format_number(largest ? time_fraction(e, e.ops[*largest]) : std::nullopt, "", style));
    cells.back().push_back(report->unavailable);
  }
  return cells;
}

std::string render_ranking_text(const std::vector<Report>& reports, const TextStyle& style) {
  const TextStyler styled(style);
  const Report& first = *sort_fastest_first(reports).front();
  std::string out = styled.bold(fmt::format("{}  on {} machines", first.title, reports.size())) + "\n";
  if (const std::string dims = dims_text(first.explanation); !dims.empty()) out += "dims" + dims + "\n";
  out +=
      "\n" + text_table(ranking_table(reports), {ranking_right_aligned, {"largest", "vs the fastest", "fused"}}, style);
  for (const std::string& remark : first.explanation.remarks) out += remark + "\n";
  if (first.layers)
    out += fmt::format("times are of one of {} layers; --on {} alone prints those of all and their memory\n",
                       first.layers->count, first.explanation.machine.name);
  for (const Report& report : reports)
    if (const std::string& missing = report.explanation.total.missing; !missing.empty())
      out += fmt::format("{}: {} is unknown\n", report.explanation.machine.name, missing);
  return out;
}

std::string render_ranking_json(const std::vector<Report>& reports) {
  Json out{{"schema", "ridge.ranking/1"}, {"machines", Json::array()}};
  Json unavailable = Json::array();
  for (const Report& report : reports) {
    if (report.unavailable.empty())
      out["machines"].push_back(Json::parse(render_json(report)));
    else
      unavailable.push_back({{"machine", report.explanation.machine.name}, {"reason", report.unavailable}});
  }
  if (!unavailable.empty()) out["unavailable"] = std::move(unavailable);
  return out.dump(2) + "\n";
}

Cells alternating_runs_table(const Report& first, const Report& second, NumberStyle style) {
  Cells cells{{"program", "median", "min", "max", "runs", "error"}};
  if (style == NumberStyle::bare) cells = {{"program", "median_s", "min_s", "max_s", "runs", "max_rel_error"}};
  for (const Report* report : {&first, &second}) {
    const OpMeasurement& total = report->measured->total;
    const auto seconds = [&](double value) { return format_number(std::optional(value), "s", style); };
    cells.push_back({report->title, seconds(total.time.median), seconds(total.time.min), seconds(total.time.max),
                     std::to_string(total.time.runs),
                     style == NumberStyle::bare ? fmt::format("{}", total.max_rel_error)
                                                : fmt::format("{:.1e}", total.max_rel_error)});
  }
  return cells;
}

std::string render_alternating_runs_text(const Report& first, const Report& second, const MedianInterval& ratio,
                                         const TextStyle& style) {
  return text_table(alternating_runs_table(first, second), {alternating_runs_right_aligned}, style) +
         ratio_line(first, second, ratio) + outlier_line(first) + outlier_line(second);
}

std::string render_alternating_runs_json(const Report& first, const Report& second, const MedianInterval& ratio) {
  Json out{{"schema", "ridge.against/1"},
           {"reports", {Json::parse(render_json(first)), Json::parse(render_json(second))}}};
  out["ratio"] = {{"median", ratio.median}, {"low", ratio.low}, {"high", ratio.high}, {"pairs", ratio.samples}};
  return out.dump(2) + "\n";
}

}  // namespace ridge
