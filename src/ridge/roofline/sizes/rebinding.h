// Sizes of a program after one dimension takes another value: derived defaults, largest shards, numbers of unmasked
// pairs.
#pragma once

#include "ridge/roofline/prediction.h"
#include "ridge/roofline/threshold.h"

namespace ridge {

// Returns the inputs for finding thresholds of the explanation's counts. `device_program` is the program as sharded
// over the devices; without a split it is `program`. The arguments must outlive the result.
ThresholdOptions make_threshold_options(const Program& program, const Program& device_program, const Bindings& given,
                                        const Explanation& e);

}  // namespace ridge
