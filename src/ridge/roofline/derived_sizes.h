// Sizes that depend on other sizes. With dims F = 4*D, another value of D under -d changes F, too, so a threshold of D
// replaces F by 4*D:
//   bf16[B, D] * bf16[D, F] -> bf16[B, F]:  4*B*D over 5*B + 4*D, and D >= 5*r*B/(4*B - 4*r)
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ridge/program/program.h"

namespace ridge {

// Sizes that are derived from one dimension.
struct DerivedSizes {
  std::vector<std::pair<std::string, Polynomial>> sizes;  // Names and formulas: F, 4*D
  bool solvable = true;                                   // True if all formulas have positive terms, so they grow
};
using DerivedSizeMap = std::map<std::string, DerivedSizes>;  // Key: the dimension that the sizes are derived from

// Returns the defaults that depend on each dimension, without those in `given`.
DerivedSizeMap find_derived_sizes(const Program& program, const Bindings& given);

// Returns the count with formulas in place of derived sizes, or nullopt if unsolvable or too long to read.
std::optional<Polynomial> substitute_derived_sizes(const Polynomial& count, const DerivedSizes& derived);

}  // namespace ridge
