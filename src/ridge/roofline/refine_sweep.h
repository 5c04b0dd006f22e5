// Refines a sweep between its points: the sizes at which the limiter changes, and curves that bend there. Each size
// is one explain() without thresholds, so it agrees with a report of that size to the last digit.
#pragma once

#include <optional>
#include <vector>

#include "ridge/roofline/prediction.h"
#include "ridge/roofline/results.h"

namespace ridge {

// Returns the index of the range with the most values, the first of equals.
std::size_t longest_range(const std::vector<DimensionValues>& ranges);

// Adds a line's changes and, if `with_curves`, its curves, starting from its points.
void refine_sweep(const Program& program, const Machine& machine, const Sweep& sweep, bool with_curves,
                  SweepLine& line);

// Larger programs would take seconds: their changes stay at requested points
inline constexpr std::size_t max_refined_statements = 64;

}  // namespace ridge
