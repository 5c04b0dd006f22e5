// A tensor that lies in parts, whole again at rank 0.
#pragma once

#include <optional>

#include "ridge/measure/memory.h"
#include "ridge/measure/ranks/part.h"

namespace ridge::ranks {

struct Whole {
  std::optional<ArrayStorage> values;  // of a tensor of addends their sums, in f32; none: this is not rank 0
  // Of a tensor of addends, where it is asked for: the sums of their magnitudes, for a bound on what rounding them
  // does.
  std::vector<double> magnitudes = {};
};

// To be called by all ranks at once. Error: no memory for it.
Result<Whole> whole_of(const Part& part, int slot, transport::Ranks& ranks);

}  // namespace ridge::ranks
