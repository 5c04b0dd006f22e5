// How a plan reads: what was chosen for each operation, and over what. Internal to report/.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "ridge/report/report.h"

namespace ridge {

std::string plan_text(const Report& report);                    // the report has plans
void add_plan(nlohmann::ordered_json& op, const OpPlan& plan);  // into an operation's object

}  // namespace ridge
