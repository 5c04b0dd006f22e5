// Counts of a language model as text and JSON.
#pragma once

#include <string>

#include "ridge/model/count.h"
#include "ridge/report/table.h"

namespace ridge {

std::string render_text(const model::ModelCount& count, const TextStyle& style = {});
std::string render_json(const model::ModelCount& count);  // "ridge.model/1"

}  // namespace ridge
