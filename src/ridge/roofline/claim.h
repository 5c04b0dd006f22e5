// Somebody's claim about a program on a machine, held against what follows from it; and where it is wrong, the slip
// that explains it, if one of the usual ones does.
//   D > 8755         from which size on the first roof binds: right where the first whole number is the same, or where
//                    the number is the boundary as it was rounded
//   intensity = 2    a quantity, to the digits that were written
//   u.limiter = memory
// A claim that some sizes would make right and others wrong is undecided, and says which dimensions have no value.
#pragma once

#include <string>
#include <vector>

#include "ridge/base/result.h"
#include "ridge/roofline/prediction.h"

namespace ridge {

struct ClaimVerdict {
  bool right = false;
  std::vector<std::string> depends = {};  // dimensions without a value that decide it; empty: it is decided
  std::string claim;                      // as it was read: "D > 4378"
  std::string truth;                      // "D >= 8756: 2*r = 8755.6, where compute takes more time than network"
  std::string of = {};  // whose threshold that is, where the claim does not say: "g" of four operations
  std::string slip;     // what explains a wrong claim: "half of it: …"; empty: nothing does
};

// Quantities: flops, bytes, intensity, ridge, time_math, time_memory, time_network, time_lower, time_upper, limiter; of
// the only operation or the total, or of what stands in front: an operation, total or fused (u.flops, fused.B > 300).
// Everything else is a dimension.
// Errors, of kind usage: a claim that cannot be read, or one about something that the report does not know.
Result<ClaimVerdict> check_claim(const Explanation& explanation, const std::string& claim);

}  // namespace ridge
