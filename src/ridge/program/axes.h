// Helpers for checks of axes and their error messages.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "ridge/base/contains.h"
#include "ridge/program/program.h"

namespace ridge::program {

inline bool is_literal_one(const Axis& axis) { return !axis.is_named() && axis.literal == 1; }

// "dimension 'D'", "size 3".
inline std::string describe_axis(const Axis& axis) {
  return axis.is_named() ? fmt::format("dimension '{}'", axis.dim) : fmt::format("size {}", axis.literal);
}

}  // namespace ridge::program
