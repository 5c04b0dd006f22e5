// One program at many sizes. What explain() does with polynomials is compiled once into flat lists of products, so that
// a point costs a fraction of a microsecond; its numbers and its limiter are those of explain() to the last bit that a
// double holds, and ties are decided as there, exactly.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ridge/base/result.h"
#include "ridge/program/ranges.h"
#include "ridge/roofline/answers.h"
#include "ridge/roofline/prediction.h"

namespace ridge {

inline constexpr std::size_t max_sweep_points = std::size_t{1} << 24;

// How many points the ranges make; errors, of kind usage: more than 2^24, a dimension twice.
Result<std::size_t> combinations(const std::vector<Range>& ranges);

// The sum over the program's operations at each point, in as many threads as the process may keep busy. The size of a
// mesh axis is a range of one value. Errors: combinations()'s, a dimension that the program lacks, one without a value,
// explain()'s. `done` hears the share, from 0 to 1, now and then.
Result<SweepLine> sweep_line(const Program& program, const Machine& machine, const std::vector<Range>& ranges,
                             const std::optional<Split>& cut = {}, const std::function<void(double)>& done = {});

}  // namespace ridge
