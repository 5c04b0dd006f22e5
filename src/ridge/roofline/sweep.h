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
#include "ridge/roofline/prediction.h"

namespace ridge {

struct SweepPoint {
  std::int64_t flops = -1, bytes = -1;          // -1, and nothing else is known: `reason` says why
  double time_lower_s = -1, time_upper_s = -1;  // -1 likewise
  Limiter limiter = Limiter::memory;            // where the times are known
  bool crossed = false;      // the limiter is another one than at the previous value of the last range
  std::uint16_t reason = 0;  // an index into SweepLine::reasons
};

// One machine, dtype and split, over every combination of the ranges' values, the last range fastest.
struct SweepLine {
  std::string machine, dtype;
  std::optional<Split> split = {};  // the numbers are then those of one chip
  std::vector<SweepPoint> points;
  // Why something may be unknown: "" (all is known), "a count leaves 2^63", "D is no multiple of the 4 chips", …
  std::vector<std::string> reasons = {};
};

struct Sweep {
  std::string program_text;
  std::vector<Range> ranges;  // dimensions with one value among them
  std::vector<SweepLine> lines;
  std::int64_t value(std::size_t point, std::size_t range) const;  // of that range's dimension
};

inline constexpr std::size_t max_sweep_points = std::size_t{1} << 24;

// How many points the ranges make; errors, of kind usage: more than 2^24, a dimension twice.
Result<std::size_t> combinations(const std::vector<Range>& ranges);

// The sum over the program's operations at each point, in as many threads as the process may keep busy. The size of a
// mesh axis is a range of one value. Errors: combinations()'s, a dimension that the program lacks, one without a value,
// explain()'s. `done` hears the share, from 0 to 1, now and then.
Result<SweepLine> sweep_line(const Program& program, const Machine& machine, const std::vector<Range>& ranges,
                             const std::optional<Split>& cut = {}, const std::function<void(double)>& done = {});

}  // namespace ridge
