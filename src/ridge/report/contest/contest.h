// What `ridge bench` shows: one line a product, then the classes.
#pragma once

#include <string>

#include "ridge/measure/contest/contest.h"

namespace ridge {

std::string contest_text(const Contest& contest);
// "ridge.contest/1". What a library says of itself may not be UTF-8: such bytes are replaced.
std::string contest_json(const Contest& contest);

}  // namespace ridge
