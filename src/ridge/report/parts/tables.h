// A report as tables: CSV with bare SI numbers for programs, Markdown with readable units for documents.
#pragma once

#include <fmt/format.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ridge/base/string_util.h"
#include "ridge/report/report.h"
#include "ridge/report/table.h"

namespace ridge {

// One row per operation, one for the total and one for the fused program, if there is one. Columns: op, flops, bytes,
// intensity, ridge, limiter, time_lower_s, time_upper_s; for a run also measured_s, measured_min_s, measured_max_s,
// fraction_of_roof, max_rel_error; for a plan also plan_cells() (plan.h). Unknown values are empty.
std::string render_csv(const Report& report);
std::string render_markdown(const Report& report);
// Returns the rows of the text's table, with readable units.
Cells report_cells(const Report& report);

Cells catalog_table(const std::vector<Machine>& machines, NumberStyle style = NumberStyle::readable);
// Columns: what, value, unit, origin, source, read_on, note; one row per number of the machine.
Cells machine_table(const Machine& machine);

// Returns the value with a metric prefix and its unit, or "-" if there is none.
template <class T> std::string format_or_dash(const std::optional<T>& value, std::string_view unit) {
  if (!value) return "-";
  return unit.empty() ? format_significant(static_cast<double>(*value))
                      : format_with_prefix(static_cast<double>(*value), unit);
}

// Returns the same in that style; an unknown bare number is empty.
template <class T> std::string format_number(const std::optional<T>& value, std::string_view unit, NumberStyle style) {
  if (style == NumberStyle::readable) return format_or_dash(value, unit);
  return value ? fmt::format("{}", *value) : "";
}

}  // namespace ridge
