// Report of `ridge bench matmul` on a CPU: one line per product, then the summaries.
#pragma once

#include <string>

#include "ridge/measure/contest/contest.h"

namespace ridge {

std::string contest_text(const Contest& contest);
// Returns JSON of schema "ridge.contest/1". Bytes of a library's description that are not UTF-8 are replaced.
std::string contest_json(const Contest& contest);

}  // namespace ridge
