// Evaluates one program at many sizes. The polynomials of explain() are compiled once into flat lists of products, so a
// point costs a fraction of a microsecond. Numbers and limiters equal those of explain() to the last bit of a double,
// and ties are decided exactly.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ridge/base/result.h"
#include "ridge/program/ranges.h"
#include "ridge/roofline/prediction.h"
#include "ridge/roofline/results.h"

namespace ridge {

inline constexpr std::size_t max_sweep_points = std::size_t{1} << 24;

// Returns the number of points of the ranges. Errors, of kind usage: more than 2^24 points, a dimension twice.
Result<std::size_t> count_points(const std::vector<DimensionValues>& ranges);

// Evaluates the sum over the program's operations at each point, on all usable cores. The size of a mesh axis is a
// range of one value. Errors: those of `count_points` and explain(), an unknown dimension, a dimension without a value.
// Calls `report_progress` with the finished fraction, 0 to 1.
Result<SweepLine> sweep_line(const Program& program, const Machine& machine, const std::vector<DimensionValues>& ranges,
                             const std::optional<DimensionSplit>& split = {},
                             const std::function<void(double)>& report_progress = {});

}  // namespace ridge
