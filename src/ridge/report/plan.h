// How a plan reads: what was chosen for each operation, and over what. Internal to report/.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "ridge/report/report.h"
#include "ridge/report/table.h"

namespace ridge {

// The report has a plan.
std::string plan_text(const Report& report);
std::string plan_markdown(const Report& report);
Cells plan_table(const Report& report);  // as people read it, one row a kernel and the total
// Bare numbers beside a table of the statements and their total: a head, a row each. A kernel's plan stands at its last
// statement; the others say where they went, and count nothing.
Cells plan_cells(const Report& report);
void add_plans(nlohmann::ordered_json& out, const Report& report);  // into the whole and its operations
// "128 tiles of 128 x 256, 132 at once: 0.97 of one wave; no work beyond the edges; 25.17 MB from memory, the least";
// and the same in keys. Empty, null: the kernel is no product.
std::string plan_reason(const OpPlan& plan);
nlohmann::ordered_json plan_facts_json(const OpPlan& plan);
// "u, g, y": a kernel's statements.
std::string group_name(const Explanation& explanation, const Group& group);

// "22.17 us: the roof 18.10 us, last wave 2.10 us, launch 1.20 us, unknown 0.77 us"; and the same as JSON.
std::string losses_text(double roof_s, const std::vector<Lost>& lost);
nlohmann::ordered_json losses_json(double roof_s, const std::vector<Lost>& lost);

}  // namespace ridge
