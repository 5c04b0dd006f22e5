// What the checks of statements ask and say about axes.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "ridge/program/program.h"

namespace ridge::notation {

inline bool has(const std::vector<Axis>& axes, const Axis& axis) {
  return std::find(axes.begin(), axes.end(), axis) != axes.end();
}

inline bool one(const Axis& axis) { return !axis.named() && axis.literal == 1; }

// "dimension 'D'", "size 3".
inline std::string described(const Axis& axis) {
  return axis.named() ? fmt::format("dimension '{}'", axis.dim) : fmt::format("size {}", axis.literal);
}

}  // namespace ridge::notation
