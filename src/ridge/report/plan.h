// How a plan reads: what was chosen for each operation, and over what. Internal to report/.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "ridge/report/report.h"

namespace ridge {

std::string plan_text(const Report& report);                        // the report has a plan
void add_plans(nlohmann::ordered_json& out, const Report& report);  // into the whole and its operations
// "u, g, y": a kernel's statements.
std::string group_name(const Explanation& explanation, const Group& group);

}  // namespace ridge
