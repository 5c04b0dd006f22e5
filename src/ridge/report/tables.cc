#include "ridge/report/tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "ridge/base/text.h"
#include "ridge/machine/keys.h"
#include "ridge/report/plan.h"
#include "ridge/report/steps.h"
#include "ridge/report/svg/drawing.h"
#include "ridge/report/used.h"

namespace ridge {
namespace {

template <class T> std::string bare(const std::optional<T>& value) { return value ? fmt::format("{}", *value) : ""; }
template <class T> std::string short_form(const std::optional<T>& value, std::string_view unit) {
  if (!value) return "-";
  return unit.empty() ? significant(static_cast<double>(*value)) : engineering(static_cast<double>(*value), unit);
}

std::vector<std::string> csv_row(const Prediction& p, const OpMeasurement* m) {
  std::vector<std::string> row{p.work.name,          bare(p.flops),
                               bare(p.bytes),        bare(p.intensity),
                               bare(p.ridge),        p.limiter ? std::string(name(*p.limiter)) : "",
                               bare(p.time_lower_s), bare(p.time_upper_s)};
  if (m)
    for (const std::string& cell :
         {fmt::format("{}", m->time.median), fmt::format("{}", m->time.min), fmt::format("{}", m->time.max),
          bare(m->fraction_of_roof), fmt::format("{}", m->max_rel_error)})
      row.push_back(cell);
  return row;
}

std::vector<std::string> markdown_row(const Prediction& p, const OpMeasurement* m) {
  std::vector<std::string> row{p.work.name,
                               short_form(p.flops, "FLOP"),
                               short_form(p.bytes, "B"),
                               short_form(p.intensity, ""),
                               short_form(p.ridge, ""),
                               p.limiter ? std::string(name(*p.limiter)) : "-",
                               short_form(p.time_lower_s, "s"),
                               short_form(p.time_upper_s, "s")};
  if (m) {
    row.push_back(engineering(m->time.median, "s"));
    row.push_back(m->fraction_of_roof ? fmt::format("{:.1f} %", 100 * *m->fraction_of_roof) : "-");
    row.push_back(fmt::format("{:.1e}", m->max_rel_error));
  }
  return row;
}

template <class Row> Cells op_table(const Report& report, std::vector<std::string> head, Row row, bool always_total) {
  Cells cells{std::move(head)};
  const Explanation& e = report.explanation;
  for (std::size_t i = 0; i < e.ops.size(); ++i)
    cells.push_back(row(e.ops[i], report.measured ? &report.measured->ops[i] : nullptr));
  if (always_total || e.ops.size() > 1)
    cells.push_back(row(e.total, report.measured ? &report.measured->total : nullptr));
  return cells;
}

Cells markdown_cells(const Report& report) {
  std::vector<std::string> head{"op", "work", "bytes", "FLOP/B", "ridge", "limiter", "lower", "no overlap"};
  if (report.measured) head.insert(head.end(), {"measured", "of roof", "error"});
  return op_table(report, head, markdown_row, false);
}

const std::vector<bool> markdown_right{false, true, true, true, true, false, true, true, true, true, true};

std::string subtitle(const Report& report) {
  const Explanation& e = report.explanation;
  std::string out = "on " + (e.machine.title.empty() ? e.machine.name : e.machine.title);
  for (const auto& [dim, value] : e.dims) out += fmt::format(", {} = {}", dim, value);
  return out;
}

std::string html_table(const Cells& cells) {
  std::string out = "<table>\n";
  for (std::size_t i = 0; i < cells.size(); ++i) {
    out += "<tr>";
    for (const std::string& cell : cells[i])
      out += i == 0 ? "<th>" + escaped(cell) + "</th>" : "<td>" + escaped(cell) + "</td>";
    out += "</tr>\n";
  }
  return out + "</table>\n";
}

}  // namespace

namespace {

// Behind the others, where anything is sent.
void add_network(Cells& cells, const Explanation& e) {
  cells[0].insert(cells[0].end(), {"time_network_s", "bytes_sent"});
  const auto add = [](std::vector<std::string>& row, const Prediction& p) {
    row.push_back(bare(p.time_network_s));
    row.push_back(bare(p.bytes_sent));
  };
  for (std::size_t i = 0; i < e.ops.size(); ++i) add(cells[i + 1], e.ops[i]);
  add(cells.back(), e.total);
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
  for (std::size_t i = 0; i < cells.size(); ++i) cells[i].insert(cells[i].end(), plans[i].begin(), plans[i].end());
  return csv_table(cells);
}

std::string render_markdown(const Report& report) {
  std::string out = fmt::format("### `{}`\n\n{}\n\n", report.title, subtitle(report));
  out += markdown_table(markdown_cells(report), markdown_right);
  if (report.planned) out += plan_markdown(report);
  for (const Prediction& p : report.explanation.ops) {
    const auto& order = report.explanation.dim_names;
    out += fmt::format("\n`{}`: {} FLOP over {} B is {} FLOP/B\n", p.work.text, p.work.flops.text(order),
                       p.work.bytes().text(order), p.intensity_formula);
    for (const Threshold& t : p.thresholds) out += "- " + threshold_text(t) + "\n";
  }
  const Explanation& e = report.explanation;
  for (const Prediction* p : sums(e)) {
    out += fmt::format("\n{}:\n", p->work.name);
    for (const Threshold& t : p->thresholds) out += "- " + threshold_text(t, true) + "\n";
  }
  return out;
}

std::string render_html(const Report& report) {
  std::string out =
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
      "content=\"width=device-width\">\n<title>" +
      escaped(report.title) +
      "</title>\n<style>:root{color-scheme:light dark}body{font-family:system-ui,sans-serif;max-width:960px;margin:2em "
      "auto;padding:0 1em}table{border-collapse:collapse;margin:1em 0}td,th{padding:.2em "
      ".8em;text-align:right}td:first-child,"
      "th:first-child{text-align:left}tr+tr{border-top:1px solid #8886}pre{overflow-x:auto}svg{width:100%;height:auto}"
      "</style></head><body>\n";
  out += render_svg(report) + html_table(markdown_cells(report));
  if (report.planned) out += html_table(plan_table(report));
  if (!report.measured) out += "<pre>" + escaped(render_steps(report)) + "</pre>\n";
  return out + "</body></html>\n";
}

Cells against_table(const Report& first, const Report& second) {
  const auto label = [](const Report& r, const Report& other) {
    return r.title == other.title ? r.explanation.machine.name : r.title;
  };
  Cells cells{{"op", "", label(first, second), label(second, first), "second / first"}};
  const auto add = [&](const Prediction& a, const Prediction& b) {
    const auto row = [&](const char* what, const auto& x, const auto& y, std::string_view unit) {
      const bool both = x && y && *x != 0;
      cells.push_back({a.work.name, what, short_form(x, unit), short_form(y, unit),
                       both ? significant(static_cast<double>(*y) / static_cast<double>(*x)) : "-"});
    };
    row("work", a.flops, b.flops, "FLOP");
    row("bytes", a.bytes, b.bytes, "B");
    row("FLOP/B", a.intensity, b.intensity, "");
    row("ridge", a.ridge, b.ridge, "");
    const auto limiter = [](const Prediction& p) { return p.limiter ? std::string(name(*p.limiter)) : "-"; };
    cells.push_back({a.work.name, "limiter", limiter(a), limiter(b), ""});
    row("lower", a.time_lower_s, b.time_lower_s, "s");
    row("no overlap", a.time_upper_s, b.time_upper_s, "s");
  };
  for (const Prediction& a : first.explanation.ops)
    for (const Prediction& b : second.explanation.ops)
      if (a.work.name == b.work.name) add(a, b);
  if (first.explanation.ops.size() > 1 || second.explanation.ops.size() > 1)
    add(first.explanation.total, second.explanation.total);
  return cells;
}

std::string render_against_json(const Report& first, const Report& second) {
  using Json = nlohmann::ordered_json;
  const Json out{{"schema", "ridge.against/1"},
                 {"reports", {Json::parse(render_json(first)), Json::parse(render_json(second))}}};
  return out.dump(2) + "\n";
}

Cells catalog_table(const std::vector<Machine>& machines) {
  Cells cells{{"name", "matrix bf16", "vector f32", "memory", "size", "ridge", "title"}};
  for (const Machine& machine : machines) {
    const Peak *matrix = machine.peak(Unit::matrix, DType::bf16), *vector = machine.pointwise_peak();
    const auto bandwidth = machine.bandwidth();
    const auto& capacity = machine.memory.front().capacity;
    cells.push_back({machine.name, matrix ? engineering(matrix->rate.value, "FLOP/s") : "-",
                     vector ? engineering(vector->rate.value, "FLOP/s") : "-",
                     bandwidth ? engineering(bandwidth->value, "B/s") : "-",
                     capacity ? engineering(capacity->value, "B") : "-",
                     matrix && bandwidth ? significant(matrix->rate.value / bandwidth->value) : "-", machine.title});
  }
  return cells;
}

Cells machine_table(const Machine& machine) {
  Cells cells{{"what", "value", "unit", "origin", "source", "read_on", "note"}};
  const auto add = [&](const std::string& what, const Sourced& n, std::string_view unit) {
    cells.push_back({what, fmt::format("{}", n.value), std::string(unit), std::string(name(n.origin)), n.source,
                     n.read_on, n.note});
  };
  const auto maybe = [&](const std::string& what, const std::optional<Sourced>& n, std::string_view unit) {
    if (n) add(what, *n, unit);
  };
  for (const Peak& peak : machine.peaks) {
    const std::string what = fmt::format("{}.{}", name(peak.unit), name(peak.dtype));
    const std::string_view unit = rate_unit(info(peak.dtype).integer);
    add(what, peak.rate, unit);
    maybe(what + ".one_core", peak.one_core, unit);
    maybe(what + ".sustained", peak.sustained, unit);
  }
  for (const MemoryLevel& level : machine.memory) {
    const std::string what = "memory." + level.name;
    maybe(what + ".bandwidth", level.bandwidth, "B/s");
    maybe(what + ".one_core", level.one_core_bandwidth, "B/s");
    maybe(what + ".sustained", level.sustained, "B/s");
    maybe(what + ".capacity", level.capacity, "B");
  }
  for (const Link& link : machine.links) {
    const std::string what = "link." + link.name;
    add(what + ".bandwidth", link.bandwidth, "B/s");
    maybe(what + ".sustained", link.sustained, "B/s");
    maybe(what + ".count", link.count, "1");
    maybe(what + ".latency", link.latency, "s");
    if (link.topology) cells.push_back({what + ".topology", std::string(name(*link.topology)), "", "", "", "", ""});
  }
  for (const NumberKey& key : number_keys)
    if (const auto found = machine.numbers.find(std::string(key.key)); found != machine.numbers.end())
      add("numbers." + std::string(key.key), found->second, key.unit);
  return cells;
}

}  // namespace ridge
