// From which size on every product of a program is compute-bound, each for itself. The sum of their times may be
// dominated by compute before the last of them is, or after: that is another question, and total's thresholds answer
// it.
#pragma once

#include <vector>

#include "ridge/roofline/roofs.h"

namespace ridge {

// One for each dimension that decides it, of programs with several contractions; those that lack the dimension count as
// they are at the sizes given. Left out is a dimension of which a contraction says nothing, or that has no value.
std::vector<Threshold> every_product(const std::vector<Prediction>& ops, const Setting& setting);

}  // namespace ridge
