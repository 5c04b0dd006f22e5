// Which of a machine's numbers a report stands on, and how sure the least sure of them is. A machine whose bandwidth
// was read from a datasheet and whose peak was guessed is *guessed*.
#pragma once

#include <vector>

#include "ridge/roofline/prediction.h"

namespace ridge {

// The peaks by which the operations were judged, each once, in the order of first use; they live in the
// explanation.
std::vector<const Peak*> used_peaks(const Explanation& explanation);

// Total and fused, of several operations, where there are thresholds to tell.
std::vector<const Prediction*> sums(const Explanation& explanation);

// guessed over derived over datasheet over measured, of these peaks and of the first memory level's bandwidth.
Origin weakest_origin(const Machine& machine, const std::vector<const Peak*>& peaks);

}  // namespace ridge
