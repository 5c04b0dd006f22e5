// What `ridge bench repeats` shows: a line a number of repeats; and the figure of it.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "ridge/measure/contest/repeats.h"

namespace ridge {

std::string repeats_text(const Repeats& repeats);
nlohmann::ordered_json repeats_json(const Repeats& repeats);  // "ridge.repeats/1"
// Time, FLOP/s and bytes/s against repeats, log over log: one kernel and one a repeat, measured as dots on a line, and
// dashed what was predicted.
std::string repeats_svg(const Repeats& repeats);

}  // namespace ridge
