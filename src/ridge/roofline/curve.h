// What a sweep shows between its points: where exactly the limiter changes, and curves that bend where they should.
// Each place is one explain() without thresholds, so that all of it agrees with a report of that size to the last
// digit.
#pragma once

#include <optional>
#include <vector>

#include "ridge/roofline/answers.h"
#include "ridge/roofline/prediction.h"

namespace ridge {

// The range with the most values, of equals the first.
std::size_t longest_range(const std::vector<Range>& ranges);

// A line's changes and, where `curves`, its curves, from its points.
void refine(const Program& program, const Machine& machine, const Sweep& sweep, bool curves, SweepLine& line);

inline constexpr std::size_t max_refined_statements = 64;  // more would take seconds: changes stay at points asked for

}  // namespace ridge
