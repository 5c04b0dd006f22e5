// Measures what one call of a function takes on this CPU, in the kernel that `run` uses for chains (ops/chain). The
// unit is the FLOP of one core's vector peak, as in machine files (`cost_exp`).
#pragma once

#include <vector>

#include "ridge/base/function.h"
#include "ridge/machine/machine.h"
#include "ridge/measure/probe.h"
#include "ridge/pool/peak.h"

namespace ridge {

// Shortest times of four loops that one thread runs in turn, in seconds.
struct FunctionTimings {
  double peak_s = 0;    // multiply-adds in registers: `peak_flops`
  double single_s = 0;  // a chain with one call per element: `elements`
  double short_s = 0;   // a chain with few calls per element
  double long_s = 0;    // the same chain with `more_calls` calls more, over all elements
  double peak_flops = 0, elements = 0, more_calls = 0;
};

// Returns the FLOPs at the peak that one more call takes, or a single call with its load and store if that is less; at
// least 1, because a call counts as 1 FLOP. Repeated calls wait for each other, single ones overlap.
double compute_call_cost(const FunctionTimings& timings);

// Times a function on the calling thread for `seconds`, or for one turn if that takes longer. The data stays in the L1.
FunctionTimings time_function(Function function, double seconds, const pool::PeakLoops& loops);

// Measures the cost of every function with `has_cost`, in the table's order, on one core.
std::vector<double> measure_function_costs(double seconds_each, const pool::PeakLoops& loops);

// Returns a line for each function from the costs of each run; the unit is FLOP.
std::vector<ProbeLine> make_cost_lines(const std::vector<std::vector<double>>& runs);

// Adds the costs (`cost_exp`) from the lines in FLOP, as whole numbers. It takes the smallest of the runs, so that
// predicted times stay lower bounds.
void add_function_costs(Machine& machine, const std::vector<ProbeLine>& lines);

}  // namespace ridge
