// One program over several chips: a dimension is cut into equal parts, one a chip. Cutting a summed dimension leaves
// every chip with a partial result of full size, and an all-reduce on a ring then sends 2*(P - 1)/P of the result from
// each of the P chips, in the result's dtype; with two chips that is the result once. Cutting any other dimension sends
// nothing.
//   bf16[B, D] * bf16[D, F] -> bf16[B, F], D over 2 chips: B*D*F FLOPs and B*D + D*F + 2*B*F bytes a chip, 2*B*F sent
#pragma once

#include <cstdint>
#include <string>

#include "ridge/base/result.h"
#include "ridge/roofline/work.h"

namespace ridge {

struct Split {
  std::string dim;
  std::int64_t chips = 1;  // from 1 to 2^20
};

// Reads "D=2". Errors, of kind usage: another form, chips out of range.
Result<Split> parse_split(const std::string& text);

// What one chip does. A dimension that the operation lacks leaves it as it is: every chip does all of it.
Work split(const Work& work, const Split& split);

}  // namespace ridge
