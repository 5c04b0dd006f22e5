// Finds the sizes at which two times cross, by search, if no closed form is known. Both are sampled at sizes that grow
// by 8 %, and more densely if they almost touch. Between two samples with different answers, bisection finds the whole
// number by exact comparison.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace ridge {

struct TimeComparison {
  std::function<double(std::int64_t)> ratio;   // First time / second time at a size; NaN if undefined
  std::function<bool(std::int64_t)> is_above;  // Exact: true if the first takes at least as long
};

struct Crossing {
  bool upwards = true;  // True if the first takes at least as long from `value` on, false if up to it
  std::int64_t value = 0;
};

struct CrossingList {
  bool starts_above = false;  // Answer at the smallest size that has one
  std::vector<Crossing> all;  // Crossings by increasing size
};

// Searches between 1 and 2^62. Returns nullopt if fewer than two sizes have an answer.
std::optional<CrossingList> find_crossings(const TimeComparison& comparison);

}  // namespace ridge
