// Counts of a language model, and its times on machines, as text and JSON.
#pragma once

#include <string>
#include <vector>

#include "ridge/model/count.h"
#include "ridge/plan/model/machine.h"
#include "ridge/report/json_values.h"
#include "ridge/report/table.h"

namespace ridge {

std::string render_text(const model::ModelCount& count, const TextStyle& style = {});
std::string render_json(const model::ModelCount& count);  // "ridge.model/1"
// The answers of one machine with a table of its modules, or of several with a line for each. `machines` has one at
// least.
std::string render_text(const model::ModelCount& count, const std::vector<ModelOnMachine>& machines,
                        const TextStyle& style = {});
std::string render_json(const model::ModelCount& count, const std::vector<ModelOnMachine>& machines);
// Returns one entry per machine, without lists, for tables.
std::string render_table_json(const std::vector<ModelOnMachine>& machines);
Json model_count_json(const model::ModelCount& count);

}  // namespace ridge
