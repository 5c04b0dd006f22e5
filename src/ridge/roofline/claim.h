// Checks a claim about a program on a machine. If the claim is wrong, names a usual mistake that explains it.
//   D > 8755         size from which the first roof is the limit: right if the first whole number is the same, or if
//                    the number is the rounded boundary
//   intensity = 2    a quantity, to the digits that were written
//   u.limiter = memory
// A claim that is right at some sizes only is undecided; the result lists the dimensions without a value.
#pragma once

#include <string>
#include <vector>

#include "ridge/base/result.h"
#include "ridge/roofline/prediction.h"

namespace ridge {

struct ClaimCheck {
  bool right = false;
  std::vector<std::string> deciding_dims = {};  // Dimensions without a value that decide; empty if the claim is decided
  std::string claim;                            // Claim as parsed: "D > 4378"
  std::string truth;  // Correct answer: "D >= 8756: 2*r = 8755.6, where compute takes at least as long as network"
  std::string operation = {};  // Operation of the threshold if the claim does not name it: "g" of four
  std::string mistake;         // Mistake that explains a wrong claim: "half of it: ..."; empty if unknown
};

// Quantities: flops, bytes, intensity, ridge, time_math, time_memory, time_network, time_lower, time_upper, limiter.
// They are those of the only operation or the total, or of the prefix: an operation, total or fused (u.flops, fused.B >
// 300). Any other name is a dimension. Errors, of kind usage: a claim that cannot be parsed, or whose subject the
// report lacks.
Result<ClaimCheck> check_claim(const Explanation& explanation, const std::string& claim);

}  // namespace ridge
