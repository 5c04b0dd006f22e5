// Statements during which each tensor is in memory: inputs always, a result from its statement to its last reader, an
// output to the end.
#pragma once

#include <vector>

#include "ridge/program/program.h"

namespace ridge {

struct LiveRange {
  int begin = -1, end = 0;  // First and last statement; begin -1: before the first
};
std::vector<LiveRange> find_live_ranges(const Program& program);  // One per tensor

}  // namespace ridge
