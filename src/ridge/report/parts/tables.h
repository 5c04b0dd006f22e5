// A report as tables for other programs and documents: CSV with bare SI numbers, Markdown as the text prints it.
#pragma once

#include <string>
#include <vector>

#include "ridge/report/report.h"
#include "ridge/report/table.h"

namespace ridge {

// One row an operation, one for the total and one for the fused program, where there is one: op, flops, bytes,
// intensity, ridge, limiter, time_lower_s, time_upper_s, of a run measured_s, measured_min_s, measured_max_s,
// fraction_of_roof, max_rel_error, and of a plan plan_cells() (plan.h). Unknown: empty.
std::string render_csv(const Report& report);
std::string render_markdown(const Report& report);
// The rows of the text's table, as they are read.
Cells report_cells(const Report& report);

Cells catalog_table(const std::vector<Machine>& machines);
// what, value, unit, origin, source, read_on, note: every number of a machine.
Cells machine_table(const Machine& machine);

}  // namespace ridge
