// From which size of a dimension on does the other roof bind? For X, FLOPs are f1*X + f0 and bytes m1*X + m0 (the
// tensors with X among their axes, and those without), so T_math >= T_memory where
//   (f1*X + f0)/peak >= (m1*X + m0)/bandwidth,  X >= (r*m0 - f0)/(f1 - r*m1)  with the ridge r = peak/bandwidth.
// For B of bf16[B, D] * bf16[D, F] -> bf16[B, F], cancelled: f1 = D*F, f0 = 0, m1 = D + F, m0 = D*F, and so
//   B >= r*D*F/(D*F - r*(D + F)),  which is r itself where B << D, F.
#pragma once

#include <array>
#include <span>
#include <string>
#include <vector>

#include "ridge/roofline/balance.h"
#include "ridge/roofline/followers.h"
#include "ridge/roofline/prediction.h"

namespace ridge {

// Two roofs of one operation: what each one counts, and their rates. T_above >= T_below is above/roofs.peak >=
// below/roofs.bandwidth; the names tell which roofs they are.
struct Meeting {
  const Polynomial& above;
  const Polynomial& below;
  Roofs roofs;
  std::array<Limiter, 2> names = {Limiter::compute, Limiter::memory};
};

// One for each dimension of the operation, in `order`, the others held at the values in `dims`. Left out is a dimension
// that occurs squared, one that is followed by what is not solvable, and one whose answer hangs on dimensions that have
// no value.
std::vector<Threshold> thresholds(const Meeting& meeting, const Bindings& dims, std::span<const std::string> order,
                                  const Followers& followers = {});

}  // namespace ridge
