// Size of a dimension from which another roof is the limit. In a dimension X, FLOPs are f1*X + f0 and bytes m1*X + m0
// (the tensors with X among their axes, and those without), so T_math >= T_memory if
//   (f1*X + f0)/peak >= (m1*X + m0)/bandwidth,  X >= (r*m0 - f0)/(f1 - r*m1)  with the ridge r = peak/bandwidth.
// For B of bf16[B, D] * bf16[D, F] -> bf16[B, F], after cancelling: f1 = D*F, f0 = 0, m1 = D + F, m0 = D*F, hence
//   B >= r*D*F/(D*F - r*(D + F)),  which is r itself if B << D, F.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ridge/roofline/compare_roofs.h"
#include "ridge/roofline/derived_sizes.h"
#include "ridge/roofline/results.h"

namespace ridge {

// Two roofs of one operation: their counts and rates. T_above >= T_below is above/rates.peak >= below/rates.bandwidth;
// `limiters` names the roofs.
struct RoofPair {
  const Polynomial& above;
  const Polynomial& below;
  RoofRates rates;
  std::array<Limiter, 2> limiters = {Limiter::compute, Limiter::memory};
};

// All sizes of a program, also as floating-point numbers.
struct BoundSizes {
  Bindings sizes;
  std::map<std::string, double> values;
};

// Returns all sizes after a dimension takes another value, or nullptr if they are invalid; for counts without a closed
// form. The sizes live as long as the function, since searches ask for the same ones again.
using Rebinding = std::function<auto(const std::string& dim, std::int64_t value)->const BoundSizes*>;

// Inputs of `find_thresholds`. `symbol_dims` maps the symbols of masks (masks.h) and shards to the dimensions that they
// depend on.
struct ThresholdOptions {
  DerivedSizeMap derived_sizes = {};
  std::map<std::string, std::vector<std::string>> symbol_dims = {};
  Rebinding rebind = {};  // If unset, dimensions without a closed form are left out
  // Same without the symbols of masks, which may take long to count and on which stored tensors do not depend
  std::function<std::optional<Bindings>(const std::string& dim, std::int64_t value)> rebind_tensors = {};
  std::shared_ptr<int> searches_left = {};  // Remaining searches; nullptr: any number
};

// Returns the thresholds of each dimension of the operation, in `order`, the others fixed at `dims`. Those without a
// closed form (squared, a difference of derived sizes, a number of pairs) are searched for and may have several. Left
// out are dimensions in `excluded`, and those whose answer depends on others without a value.
std::vector<Threshold> find_thresholds(const RoofPair& pair, const Bindings& dims, std::span<const std::string> order,
                                       const ThresholdOptions& options = {},
                                       std::span<const std::string> excluded = {});

}  // namespace ridge
