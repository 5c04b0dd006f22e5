// Costs of functions: the time of one call on a machine, in FLOPs at its vector peak. A cosine counts as 1 FLOP but
// takes as long as 10 on an H100. A machine file says it (`cost_cos`); `ridge probe` measures it on this CPU. A CPU
// that was not probed has the costs of the function table, another GPU of NVIDIA's those of an H100, both as a guess.
// On other machines a call counts as 1, so that times stay lower bounds.
#pragma once

#include "ridge/base/function.h"
#include "ridge/machine/machine.h"

namespace ridge {

// Returns the cost of a function with `has_cost` in FLOPs, with its source: a whole number of at least 1.
SourcedValue function_cost(const Machine& machine, Function function);

}  // namespace ridge
