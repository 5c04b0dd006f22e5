// `assumptions_text`: the assumptions of a report's times (network, masks, numbers that the machine lacks).
// `memory_text`: the memory section. Both may be empty.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "ridge/roofline/prediction.h"

namespace ridge {

std::string assumptions_text(const Explanation& e);
// The functions of a program that have a cost, each with its cost in FLOPs on the report's machine.
std::vector<std::pair<Function, SourcedValue>> used_function_costs(const Explanation& e);
// "a call takes as long as: exp 16, gelu 38 (as on h100)"; empty without such calls.
std::string function_costs_text(const Explanation& e);
std::string memory_text(const Explanation& e);

}  // namespace ridge
