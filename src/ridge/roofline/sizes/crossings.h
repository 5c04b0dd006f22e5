// Where two times cross as a size grows, found by search where no closed form is known. Both are followed at sizes that
// grow by eight per cent, nearer where they almost touch; between two sizes with different answers bisection finds the
// whole number, by exact comparison.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace ridge {

struct Comparison {
  std::function<double(std::int64_t)> ratio;  // the first time over the second at a size; NaN: there is none
  std::function<bool(std::int64_t)> above;    // exactly: does the first take at least as long?
};

struct Crossing {
  bool upwards = true;  // from `value` on the first takes at least as long; else up to it
  std::int64_t value = 0;
};

struct Crossings {
  bool above_at_first = false;  // at the smallest size at which there is an answer
  std::vector<Crossing> all;    // in order
};

// Between 1 and 2^62. None: there are not two sizes with an answer.
std::optional<Crossings> crossings(const Comparison& comparison);

}  // namespace ridge
