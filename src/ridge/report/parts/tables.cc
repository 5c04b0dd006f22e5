#include "ridge/report/parts/tables.h"

#include <fmt/format.h>

#include <algorithm>

#include "ridge/base/string_util.h"
#include "ridge/machine/keys.h"
#include "ridge/report/json_values.h"
#include "ridge/report/parts/used_peaks.h"
#include "ridge/report/plan.h"
#include "ridge/report/text_parts.h"

namespace ridge {
namespace {

template <class T> std::string number_or_empty(const std::optional<T>& value) {
  return value ? fmt::format("{}", *value) : "";
}
std::vector<std::string> csv_row(const Prediction& p, const OpMeasurement* m) {
  std::vector<std::string> row{p.work.name,
                               number_or_empty(p.flops),
                               number_or_empty(p.bytes),
                               number_or_empty(p.intensity),
                               number_or_empty(p.ridge),
                               p.limiter ? std::string(name(*p.limiter)) : "",
                               number_or_empty(p.time_lower_s),
                               number_or_empty(p.time_upper_s)};
  if (m)
    for (const std::string& cell :
         {fmt::format("{}", m->time.median), fmt::format("{}", m->time.min), fmt::format("{}", m->time.max),
          number_or_empty(m->fraction_of_roof), fmt::format("{}", m->max_rel_error)})
      row.push_back(cell);
  return row;
}

std::vector<std::string> run_row(const Prediction& p, const OpMeasurement* m) {
  std::vector<std::string> row{p.work.name,
                               format_or_dash(p.flops, "FLOP"),
                               format_or_dash(p.bytes, "B"),
                               format_or_dash(p.intensity, ""),
                               format_or_dash(p.ridge, ""),
                               limiter_text(p),
                               format_or_dash(p.time_lower_s, "s"),
                               format_or_dash(p.time_upper_s, "s")};
  if (!m) return row;
  row.push_back(format_with_prefix(m->time.median, "s"));
  row.push_back(roof_fraction_text(*m));
  row.push_back(fmt::format("{:.1e}", m->max_rel_error));
  return row;
}

template <class Row> Cells op_table(const Report& report, std::vector<std::string> head, Row row, bool always_total) {
  Cells cells{std::move(head)};
  const Explanation& e = report.explanation;
  for (std::size_t i = 0; i < e.ops.size(); ++i)
    cells.push_back(row(e.ops[i], report.measured ? &report.measured->ops[i] : nullptr));
  if (always_total || e.ops.size() > 1)
    cells.push_back(row(e.total, report.measured ? &report.measured->total : nullptr));
  if (e.fused) cells.push_back(row(*e.fused, nullptr));
  for (std::vector<std::string>& cell : cells)
    cell.resize(cells.front().size());  // the fused program has no measurement
  return cells;
}

}  // namespace

Cells report_cells(const Report& report) {
  if (!report.measured) return prediction_rows(report);
  return op_table(
      report,
      {"op", "work", "bytes", "FLOP/B", "ridge", "limiter", "lower", "no overlap", "measured", "of roof", "error"},
      run_row, false);
}

namespace {

std::vector<bool> right_aligned_columns(const Report& report) {
  if (!report.measured) return prediction_right_aligned;
  return {false, true, true, true, true, false, true, true, true, true, true};
}

std::string subtitle_text(const Report& report) {
  const Explanation& e = report.explanation;
  std::string out = "on " + (e.machine.title.empty() ? e.machine.name : e.machine.title);
  for (const auto& [dim, value] : e.dims) out += fmt::format(", {} = {}", dim, value);
  return out;
}

// Returns the summary without its final blank line; empty for a run.
std::string trimmed_summary(const Report& report) {
  std::string out = report.measured ? std::string() : summary_text(report, TextStyler({}));
  if (!out.empty()) out.pop_back();
  return out;
}

}  // namespace

namespace {

// Appends the network columns.
void add_network(Cells& cells, const Explanation& e) {
  cells[0].insert(cells[0].end(), {"time_network_s", "bytes_sent"});
  const auto add = [](std::vector<std::string>& row, const Prediction& p) {
    row.push_back(number_or_empty(p.time_network_s));
    row.push_back(number_or_empty(p.bytes_sent));
  };
  for (std::size_t i = 0; i < e.ops.size(); ++i) add(cells[i + 1], e.ops[i]);
  add(cells[e.ops.size() + 1], e.total);
  if (e.fused) add(cells.back(), *e.fused);
}

}  // namespace

std::string render_csv(const Report& report) {
  std::vector<std::string> head{"op",    "flops",   "bytes",        "intensity",
                                "ridge", "limiter", "time_lower_s", "time_upper_s"};
  if (report.measured)
    head.insert(head.end(), {"measured_s", "measured_min_s", "measured_max_s", "fraction_of_roof", "max_rel_error"});
  Cells cells = op_table(report, head, csv_row, true);
  if (report.explanation.network) add_network(cells, report.explanation);
  const Cells plans = report.planned ? plan_cells(report) : Cells(cells.size());
  for (std::size_t i = 0; i < std::min(cells.size(), plans.size()); ++i)
    cells[i].insert(cells[i].end(), plans[i].begin(), plans[i].end());
  for (std::vector<std::string>& row : cells) row.resize(cells.front().size());  // the fused program has no plan
  return csv_table(cells);
}

std::string render_markdown(const Report& report) {
  std::string out = fmt::format("### `{}`\n\n{}\n\n", report.title, subtitle_text(report));
  if (const std::string answer = trimmed_summary(report); !answer.empty()) out += "```\n" + answer + "```\n\n";
  out += markdown_table(report_cells(report), right_aligned_columns(report));
  if (report.planned) out += plan_markdown(report);
  for (const Prediction& p : report.explanation.ops) {
    const auto& order = report.explanation.dim_names;
    out += fmt::format("\n`{}`: {} FLOP over {} B is {} FLOP/B\n", p.work.text, p.work.flops.to_string(order),
                       p.work.bytes().to_string(order), p.intensity_formula);
    for (const Threshold& t : p.thresholds)
      if (is_shown_dim(report, t.dim)) out += "- " + threshold_text(t) + "\n";
  }
  const Explanation& e = report.explanation;
  for (const Prediction* p : sums_with_thresholds(e)) {
    out += fmt::format("\n{}:\n", p->work.name);
    for (const Threshold& t : p->thresholds)
      if (is_shown_dim(report, t.dim)) out += "- " + threshold_text(t) + "\n";
  }
  return out;
}

Cells catalog_table(const std::vector<Machine>& machines, NumberStyle style) {
  Cells cells{{"name", "matrix bf16", "vector f32", "memory", "size", "ridge", "title"}};
  if (style == NumberStyle::bare)
    cells = {{"name", "matrix_bf16_flops_per_s", "vector_f32_flops_per_s", "memory_bytes_per_s", "memory_bytes",
              "ridge", "title"}};
  for (const Machine& machine : machines) {
    const Peak *matrix = machine.find_peak(ComputeUnit::matrix, DType::bf16), *vector = machine.pointwise_peak();
    const auto bandwidth = machine.memory_bandwidth();
    const auto& capacity = machine.memory.front().capacity;
    const auto number = [&](bool is_known, double value, std::string_view unit) {
      return format_number(is_known ? std::optional(value) : std::nullopt, unit, style);
    };
    cells.push_back({machine.name, number(matrix, matrix ? matrix->rate.value : 0, "FLOP/s"),
                     number(vector, vector ? vector->rate.value : 0, "FLOP/s"),
                     number(bandwidth.ok(), bandwidth ? bandwidth->value : 0, "B/s"),
                     number(capacity.has_value(), capacity ? capacity->value : 0, "B"),
                     number(matrix && bandwidth, matrix && bandwidth ? matrix->rate.value / bandwidth->value : 0, ""),
                     machine.title});
  }
  return cells;
}

Cells machine_table(const Machine& machine) {
  Cells cells{{"what", "value", "unit", "origin", "source", "read_on", "note"}};
  const auto add = [&](const std::string& what, const SourcedValue& n, std::string_view unit) {
    cells.push_back({what, fmt::format("{}", n.value), std::string(unit), std::string(origin_name(n.origin)), n.source,
                     n.read_on, n.note});
  };
  const auto add_if_set = [&](const std::string& what, const std::optional<SourcedValue>& n, std::string_view unit) {
    if (n) add(what, *n, unit);
  };
  for (const Peak& peak : machine.peaks) {
    const std::string what = fmt::format("{}.{}", unit_name(peak.unit), dtype_name(peak.dtype));
    const std::string_view unit = rate_unit(dtype_info(peak.dtype).is_integer);
    add(what, peak.rate, unit);
    add_if_set(what + ".one_core", peak.one_core, unit);
    add_if_set(what + ".sustained", peak.sustained, unit);
  }
  for (const MemoryLevel& level : machine.memory) {
    const std::string what = "memory." + level.name;
    add_if_set(what + ".bandwidth", level.bandwidth, "B/s");
    add_if_set(what + ".one_core", level.one_core_bandwidth, "B/s");
    add_if_set(what + ".sustained", level.sustained, "B/s");
    add_if_set(what + ".capacity", level.capacity, "B");
  }
  for (const Link& link : machine.links) {
    const std::string what = "link." + link.name;
    add(what + ".bandwidth", link.bandwidth, "B/s");
    add_if_set(what + ".sustained", link.sustained, "B/s");
    add_if_set(what + ".count", link.count, "1");
    add_if_set(what + ".latency", link.latency, "s");
    if (link.topology)
      cells.push_back({what + ".topology", std::string(topology_name(*link.topology)), "", "", "", "", ""});
  }
  for (const NumberKey& key : number_keys)
    if (const auto found = machine.numbers.find(std::string(key.key)); found != machine.numbers.end())
      add("numbers." + std::string(key.key), found->second, key.unit);
  return cells;
}

}  // namespace ridge
