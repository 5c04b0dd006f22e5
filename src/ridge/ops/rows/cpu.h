// Row functions and reductions on this CPU. Data pointers are to the first element; inputs may be unaligned, must not
// overlap the output. Threads: 0 means every core that the process may use (base/cores.h), else exactly so many.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ridge/ops/rows/program.h"

namespace ridge::ops {

// What stands in the way of running this problem, as a sentence; none: it runs.
std::optional<std::string> refuse(const ReduceProblem& problem);

// Axes outermost first in x, and one where two follow on each other everywhere; none of extent 1.
std::vector<ReduceAxis> merged(std::vector<ReduceAxis> axes);

double joined(ReduceFunction function, double so_far, double value);  // of a mean, the sum

// y = function of each row of x, or of all rows.
void rows(const RowProblem& problem, const RowData& data, int threads = 0);

void reduce(const ReduceProblem& problem, const void* x, void* y, int threads = 0);

}  // namespace ridge::ops
