// Overlap of two costs, used by the time models of libraries.
#pragma once

#include <algorithm>

#include "ridge/base/portable_math.h"

namespace ridge::ops {

// Returns the p-norm of two times that overlap: their sum for power 1, nearly the longer one for power 8.
inline double overlap_seconds(double x, double y, double power) {
  const double longer = std::max(x, y), shorter = std::min(x, y), p = std::clamp(power, 1.0, 8.0);
  if (shorter < 0.001 * longer) return p == 1 ? longer + shorter : longer;
  return longer * base::pow(1 + base::pow(shorter / longer, p), 1 / p);
}

}  // namespace ridge::ops
