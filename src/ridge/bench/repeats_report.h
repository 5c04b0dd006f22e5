// Report of `ridge bench repeats`: one line per number of repeats, and a figure.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "ridge/bench/repeats.h"
#include "ridge/report/table.h"

namespace ridge {

std::string format_repeats(const RepeatsBenchmark& repeats, const TextStyle& style = {});
nlohmann::ordered_json repeats_json(const RepeatsBenchmark& repeats);  // "ridge.repeats/1"
// Draws time, FLOP/s and bytes/s against repeats on log axes, for one kernel and for one kernel per repeat: measured
// values as dots on a line, predictions dashed.
std::string repeats_svg(const RepeatsBenchmark& repeats);

}  // namespace ridge
