// From which statement to which each tensor is in memory: inputs throughout, a result from where it is made until it is
// last read, an output to the end.
#pragma once

#include <vector>

#include "ridge/program/program.h"

namespace ridge {

struct Life {
  int begin = -1, end = 0;  // statements, both included; begin -1: from before the first
};
std::vector<Life> lives(const Program& program);  // one a tensor

}  // namespace ridge
