// Comparison of a language model's times on several machines or in several formats.
#pragma once

#include <string>
#include <vector>

#include "ridge/model/count.h"
#include "ridge/plan/model/machine.h"
#include "ridge/report/table.h"

namespace ridge {

// Returns the line above the table: which machine and format give the most tokens per second and chip, and how much
// more than the next. `machines` has two at least, here and below.
std::string comparison_line(const model::ModelCount& count, const std::vector<ModelOnMachine>& machines);
// Returns one row for each machine and format.
std::string machines_table(const std::vector<ModelOnMachine>& machines, const TextStyle& style);
// Returns sentences about what the times of one or several machines leave out, and why they have no prediction.
std::vector<std::string> list_caveats(const std::vector<ModelOnMachine>& machines);
// Returns sentences about the batch from which another machine or format gives more tokens per second and chip.
std::vector<std::string> list_break_evens(const std::vector<ModelOnMachine>& machines);

}  // namespace ridge
