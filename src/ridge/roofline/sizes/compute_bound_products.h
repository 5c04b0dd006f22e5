// Sizes from which every product of a program is compute-bound by itself. The sum of their times may become
// compute-bound at a smaller or larger size; the thresholds of the total answer that.
#pragma once

#include <vector>

#include "ridge/roofline/roofs.h"

namespace ridge {

// Returns one threshold per dimension, for programs with several contractions. Contractions without the dimension count
// at the given sizes. A dimension is left out if it has no value or a contraction has no single threshold of it.
std::vector<Threshold> find_compute_bound_sizes(const std::vector<Prediction>& ops, const RooflineContext& context);

}  // namespace ridge
