// Reports of training a language model: a step on one machine, or a line for each of several machines.
#pragma once

#include <string>
#include <vector>

#include "ridge/model/count.h"
#include "ridge/plan/model/training.h"
#include "ridge/report/table.h"

namespace ridge {

// `machines` has one at least.
std::string render_text(const model::ModelCount& count, const std::vector<TrainingStep>& machines,
                        const TextStyle& style = {});
std::string render_json(const model::ModelCount& count, const std::vector<TrainingStep>& machines);
// Returns one entry per machine, without lists, for tables.
std::string render_table_json(const std::vector<TrainingStep>& machines);

}  // namespace ridge
