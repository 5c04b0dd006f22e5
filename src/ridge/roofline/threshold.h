// From which size of a dimension on does the other roof bind? For X, FLOPs are f1*X + f0 and bytes m1*X + m0 (the
// tensors with X among their axes, and those without), so T_math >= T_memory where
//   (f1*X + f0)/peak >= (m1*X + m0)/bandwidth,  X >= (r*m0 - f0)/(f1 - r*m1)  with the ridge r = peak/bandwidth.
// For B of bf16[B, D] * bf16[D, F] -> bf16[B, F], cancelled: f1 = D*F, f0 = 0, m1 = D + F, m0 = D*F, and so
//   B >= r*D*F/(D*F - r*(D + F)),  which is r itself where B << D, F.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ridge/roofline/answers.h"
#include "ridge/roofline/balance.h"
#include "ridge/roofline/followers.h"

namespace ridge {

// Two roofs of one operation: what each one counts, and their rates. T_above >= T_below is above/roofs.peak >=
// below/roofs.bandwidth; the names tell which roofs they are.
struct Meeting {
  const Polynomial& above;
  const Polynomial& below;
  Roofs roofs;
  std::array<Limiter, 2> names = {Limiter::compute, Limiter::memory};
};

// The sizes where one dimension has another value; none: there are none. For what no closed form takes along.
using Rebinding = std::function<std::optional<Bindings>(const std::string& dim, std::int64_t value)>;

// How thresholds may be found. `counted`: symbols that stand for a number of pairs (masks.h), with the dimensions on
// which they hang.
struct Ways {
  Followers followers = {};
  std::map<std::string, std::vector<std::string>> counted = {};
  Rebinding rebind = {};               // none: what has no closed form is left out
  std::shared_ptr<int> searches = {};  // how many may still be made; none: any number
};

// At least one for each dimension of the operation, in `order`, the others held at the values in `dims`. What has no
// closed form (a dimension that occurs squared, one that is followed by a difference, one on which a number of pairs
// hangs) is searched for, and may cross several times. Left out is a dimension whose answer hangs on others that have
// no value, and those of `left_out`.
std::vector<Threshold> thresholds(const Meeting& meeting, const Bindings& dims, std::span<const std::string> order,
                                  const Ways& ways = {}, std::span<const std::string> left_out = {});

}  // namespace ridge
