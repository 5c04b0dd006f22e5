// Rounded-up division of whole numbers.
#pragma once

#include <cstdint>

namespace ridge {

// Returns the smallest whole number that is not below count / divisor, for count >= 0 and divisor > 0.
constexpr std::int64_t ceil_div(std::int64_t count, std::int64_t divisor) {
  return count / divisor + (count % divisor != 0 ? 1 : 0);
}

}  // namespace ridge
