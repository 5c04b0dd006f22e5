// Report of `ridge bench stream` on a CPU: one line per kernel.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "ridge/measure/contest/stream_contest.h"

namespace ridge {

std::string stream_text(const StreamContest& contest);
nlohmann::ordered_json stream_json(const StreamContest& contest);

}  // namespace ridge
