// Text and JSON of a comparison.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "ridge/base/string_util.h"
#include "ridge/base/version.h"
#include "ridge/bench/comparison.h"

namespace ridge {
namespace {

using Measure = Comparison::Measure;
using Format = ComparisonColumn::Format;

double rate_of(double work, double seconds) { return seconds > 0 ? work / seconds : 0; }

Json competitor_json(const Competitor& c) {
  const Statistics time = c.time();
  Json out{{"name", c.name}, {"median_s", time.median}, {"min_s", time.min}, {"max_s", time.max}, {"runs", time.runs}};
  if (c.flops > 0) out["flops_per_s"] = rate_of(c.flops, time.median);
  if (c.bytes > 0) out["bytes_per_s"] = rate_of(c.bytes, time.median);
  if (c.predicted_s) out["predicted_s"] = interval_json(*c.predicted_s);
  if (c.max_error) out["max_error"] = *c.max_error;
  return out;
}

Json row_json(const ComparisonRow& row) {
  Json out = row.labels;
  out["best"] = or_null(std::string_view(row.best));
  out["ratio"] = positive_or_null(row.ratio.median);
  out["ratio_low"] = positive_or_null(row.ratio.min);
  out["ratio_high"] = positive_or_null(row.ratio.max);
  for (const auto& [key, value] : row.numbers.items()) out[key] = value;
  out["times"] = Json::array();
  for (const Competitor& c : row.competitors)
    if (c.is_supported) out["times"].push_back(competitor_json(c));
  return out;
}

std::vector<const ComparisonRow*> select_rows(const Comparison& x, const RowClass& c) {
  std::vector<const ComparisonRow*> rows;
  for (const ComparisonRow& row : x.rows)
    if (c.contains(row.labels)) rows.push_back(&row);
  return rows;
}

// Returns the geometric mean of the rows whose value is positive, or null if there is none.
template <class Value> Json geometric_mean(const std::vector<const ComparisonRow*>& rows, const Value& value) {
  double logs = 0;
  int count = 0;
  for (const ComparisonRow* row : rows)
    if (const double x = value(*row); x > 0) {
      logs += std::log(x);
      ++count;
    }
  return count > 0 ? Json(std::exp(logs / count)) : Json(nullptr);
}

double number_of(const ComparisonRow& row, const char* key) {
  const auto found = row.numbers.find(key);
  return found != row.numbers.end() && found->is_number() ? found->get<double>() : 0;
}

// Adds the summary of numbers that only products on a device have.
void add_class_numbers(Json& out, const std::vector<const ComparisonRow*>& rows) {
  for (const auto& [name, key] : {std::pair{"geometric_mean_tuned", "tuned_ratio"},
                                  {"geometric_mean_first", "ratio_first"},
                                  {"per_cycle", "per_cycle"}})
    if (rows[0]->numbers.contains(key))
      out[name] = geometric_mean(rows, [k = key](const ComparisonRow& row) { return number_of(row, k); });
  if (!rows[0]->numbers.contains("right")) return;
  double error = 0;
  std::size_t wrong = 0;
  for (const ComparisonRow* row : rows) {
    error += std::fabs(number_of(*row, "predicted_s") / row->competitors[0].time().median - 1);
    wrong += row->numbers.value("right", true) ? 0 : 1;
  }
  out["prediction_error"] = error / static_cast<double>(rows.size());
  out["wrong"] = wrong;
}

Json classes_json(const Comparison& x) {
  Json out = Json::array();
  for (const RowClass& c : x.classes) {
    const auto rows = select_rows(x, c);
    std::vector<double> ratios;
    for (const ComparisonRow* row : rows)
      if (row->ratio.median > 0) ratios.push_back(row->ratio.median);
    if (ratios.empty()) continue;
    std::sort(ratios.begin(), ratios.end());
    Json summary{{"name", c.name},
                 {"rows", rows.size()},
                 {"geometric_mean", geometric_mean(rows, [](const ComparisonRow& row) { return row.ratio.median; })},
                 {"percentile_5", ratios[ratios.size() / 20]},
                 {"worst", ratios.front()}};
    add_class_numbers(summary, rows);
    out.push_back(std::move(summary));
  }
  return out;
}

Json clocks_json(const std::optional<DeviceClocks>& c) {
  if (!c) return nullptr;
  return {{"sm_hz", c->sm_hz},
          {"most_sm_hz", c->max_sm_hz},
          {"memory_hz", c->memory_hz},
          {"power_w", c->power_w},
          {"slowed_by", c->throttle_reasons}};
}

std::string format_measure(Measure measure, const Competitor& c) {
  if (!c.is_supported) return "-";
  const double seconds = c.time().median;
  switch (measure) {
    case Measure::seconds: return format_with_prefix(seconds, "s");
    case Measure::predicted_s: return c.predicted_s ? format_with_prefix(c.predicted_s->expected, "s") : "-";
    case Measure::gflop_per_s: return fmt::format("{:.1f}", rate_of(c.flops, seconds) / 1e9);
    case Measure::gb_per_s: return fmt::format("{:.1f}", rate_of(c.bytes, seconds) / 1e9);
    case Measure::flop_per_s: return format_with_prefix(rate_of(c.flops, seconds), "FLOP/s");
    case Measure::byte_per_s: return format_with_prefix(rate_of(c.bytes, seconds), "B/s");
  }
  return "";
}

std::string_view measure_header(Measure measure) {
  if (measure == Measure::predicted_s) return "predicted";
  return measure == Measure::flop_per_s ? "FLOP/s" : "B/s";
}

std::string format_number(const ComparisonColumn& column, const Json& numbers) {
  const Json::json_pointer at("/" + column.key);
  if (column.format == Format::is_right) return numbers.value(column.key, true) ? "" : "WRONG";
  if (!numbers.contains(at) || numbers[at].is_null()) return "-";
  const Json& value = numbers[at];
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number_integer()) return value.dump();
  switch (column.format) {
    case Format::decimals: return fmt::format("{:.3f}", value.get<double>());
    case Format::percent: return fmt::format("{:.1f}%", 100 * value.get<double>());
    case Format::seconds: return format_with_prefix(value.get<double>(), "s");
    default: return value.dump();
  }
}

std::string format_label(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  return value == 0 ? "-" : value.dump();
}

std::vector<std::string> header_cells(const Comparison& x) {
  std::vector<std::string> out;
  if (x.rows.empty()) return {"(no rows)"};
  for (const auto& [key, value] : x.rows[0].labels.items()) out.push_back(key);
  for (const Competitor& c : x.rows[0].competitors)
    for (const Measure measure : x.measures)
      out.emplace_back(measure == x.measures[0] ? std::string_view(c.name) : measure_header(measure));
  out.insert(out.end(), {"ratio", "low", "high"});
  for (const ComparisonColumn& column : x.columns) out.push_back(column.header);
  return out;
}

std::vector<std::string> row_cells(const Comparison& x, const ComparisonRow& row) {
  std::vector<std::string> out;
  for (const Json& value : row.labels) out.push_back(format_label(value));
  for (const Competitor& c : row.competitors)
    for (const Measure measure : x.measures) out.push_back(format_measure(measure, c));
  for (const double ratio : {row.ratio.median, row.ratio.min, row.ratio.max})
    out.push_back(ratio > 0 ? fmt::format("{:.3f}", ratio) : "-");
  for (const ComparisonColumn& column : x.columns) out.push_back(format_number(column, row.numbers));
  return out;
}

// Returns a table of the classes, whose columns are the members of their JSON.
std::string format_classes(const Comparison& x, const TextStyle& style) {
  Cells cells;
  for (const Json& c : classes_json(x)) {
    if (cells.empty()) {
      cells.emplace_back();
      for (const auto& [key, value] : c.items()) cells[0].push_back(key == "name" ? "class" : key);
      for (std::string& header : cells[0]) std::replace(header.begin(), header.end(), '_', ' ');
    }
    cells.emplace_back();
    for (const auto& [key, value] : c.items()) {
      const bool is_percent = key == "per_cycle" || key == "prediction_error";
      cells.back().push_back(format_number({key, "", is_percent ? Format::percent : Format::decimals}, c));
    }
  }
  if (cells.empty()) return "";
  std::vector<bool> right(cells[0].size(), true);
  right[0] = false;
  return text_table(cells, {.right = right, .omit_first = {"geometric mean first", "per cycle"}, .is_in_csv = false},
                    style);
}

std::string plural(int count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

std::string format_device(const Comparison& x) {
  std::string out = x.device;
  if (x.driver > 0) out += fmt::format(", driver {}.{}", x.driver / 1000, x.driver % 1000 / 10);
  if (x.threads > 0) out += ", " + plural(x.threads, "thread");
  if (!x.day.empty()) out += ", " + x.day;
  if (!x.clocks_after) return out + "\n";
  const DeviceClocks& c = *x.clocks_after;
  return out + fmt::format("\nclock {} of {}, {:.0f} W{}{}\n", format_with_prefix(c.sm_hz, "Hz"),
                           format_with_prefix(c.max_sm_hz, "Hz"), c.power_w,
                           c.throttle_reasons.empty() ? "" : ", limited by: ", fmt::join(c.throttle_reasons, ", "));
}

}  // namespace

std::string format_comparison(const Comparison& x, const TextStyle& style) {
  Cells cells{header_cells(x)};
  for (const ComparisonRow& row : x.rows) cells.push_back(row_cells(x, row));
  std::vector<bool> right = number_columns(cells);
  const std::size_t labels = x.rows.empty() ? 1 : x.rows[0].labels.size(), others = right.size() - x.columns.size();
  for (std::size_t i = labels; i < others; ++i) right[i] = true;
  for (std::size_t i = 0; i < x.columns.size(); ++i)
    right[others + i] = x.columns[i].format != Format::text || right[others + i];
  // From the least important column on.
  const std::vector<std::string> omit_first = {"split", "low",       "high",     "arithmetic", "moves", "in L1",
                                               "bar",   "bar",       "in cache", "cached",     "first", "per cycle",
                                               "B/s",   "predicted", "kernel",   "of peak",    "dtype", "op"};
  std::string out = text_table(cells, {.right = right, .omit_first = omit_first}, style);
  std::string_view unit = x.measures[0] == Measure::gb_per_s ? "GB/s read and written" : "time";
  if (x.measures[0] == Measure::gflop_per_s) unit = "GFLOP/s";
  out += fmt::format("\n{}, median of {}; ratio: {}\n", unit, plural(x.rounds, "round"), x.ratio_meaning);
  out += format_classes(x, style) + format_device(x);
  for (const std::string& note : x.notes) out += note + "\n";
  return out;
}

std::string comparison_json(const Comparison& x) {
  Json out{{"schema", "ridge.benchmark/1"},
           {"benchmark", x.benchmark},
           {"version", version()},
           {"commit", commit()},
           {"day", x.day},
           {"device", x.device},
           {"rounds", x.rounds}};
  if (x.driver > 0) out["driver"] = x.driver;
  if (x.threads > 0) out["threads"] = x.threads;
  for (const auto& [key, value] : x.settings.items()) out[key] = value;
  if (x.driver > 0) out["clocks"] = {{"before", clocks_json(x.clocks_before)}, {"after", clocks_json(x.clocks_after)}};
  out["notes"] = x.notes;
  if (!x.classes.empty()) out["classes"] = classes_json(x);
  out["rows"] = Json::array();
  for (const ComparisonRow& row : x.rows) out["rows"].push_back(row_json(row));
  return out.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace ridge
