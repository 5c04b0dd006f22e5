// Numbers of a machine that a report uses, and the least certain origin among them: if the bandwidth is from a
// datasheet and the peak is guessed, the report is "guessed".
#pragma once

#include <vector>

#include "ridge/roofline/prediction.h"

namespace ridge {

// Returns the peaks that the operations use, without duplicates, in order of first use. They point into the
// explanation.
std::vector<const Peak*> used_peaks(const Explanation& explanation);

// Returns those of total and fused that have thresholds, for a program of several operations.
std::vector<const Prediction*> sums_with_thresholds(const Explanation& explanation);

// Returns the least certain origin (guessed, derived, datasheet, measured) of `peaks` and the memory bandwidth.
Origin least_certain_origin(const Machine& machine, const std::vector<const Peak*>& peaks);

}  // namespace ridge
