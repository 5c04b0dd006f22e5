// The sizes of a program where one dimension has another value: defaults that follow it, largest parts over a mesh,
// pairs that masks let through.
#pragma once

#include "ridge/roofline/prediction.h"
#include "ridge/roofline/threshold.h"

namespace ridge {

// How thresholds of the explanation's counts are found. `lies`: the program as it lies on the devices, which is itself
// unless it is split. What the answer refers to must outlive it.
Ways ways_of(const Program& program, const Program& lies, const Bindings& given, const Explanation& e);

}  // namespace ridge
