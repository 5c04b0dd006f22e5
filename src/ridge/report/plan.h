// A plan as text, tables and JSON: the kernel chosen for each operation, and the alternatives. Internal to report/.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "ridge/report/report.h"
#include "ridge/report/table.h"
#include "ridge/report/text_parts.h"

namespace ridge {

// All functions here require `report.planned`.
std::string plan_text(const Report& report, const TextStyler& styled);
std::string plan_markdown(const Report& report);
Cells plan_table(const Report& report);  // readable units; one row per kernel, and the total
// Returns bare numbers to append to a table of the statements: a header, one row per statement, the total. A kernel's
// numbers are in the row of its last statement; its other rows say "in NAME" and hold zeros.
Cells plan_cells(const Report& report);
void add_plans(nlohmann::ordered_json& out, const Report& report);  // adds to the document and its operations
// Returns "128 tiles of 128 x 256, 132 at a time: 0.97 of one wave; no work outside the matrix; 25.17 MB from memory,
// the minimum", and the same as JSON. Empty or null if the kernel is no product.
std::string plan_reason(const GroupPrediction& plan);
nlohmann::ordered_json plan_properties_json(const GroupPrediction& plan);
// Returns "u, g, y", the statements of a kernel.
std::string group_name(const Explanation& explanation, const FusionGroup& group);

// Returns "22.17 us: roof 18.10 us, last wave 2.10 us, launch 1.20 us, unknown 0.77 us", and the same as JSON.
std::string overheads_text(double roofline_s, const std::vector<Overhead>& overheads);
nlohmann::ordered_json overheads_json(double roofline_s, const std::vector<Overhead>& overheads);

}  // namespace ridge
