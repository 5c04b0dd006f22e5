// Number of pairs of whole numbers in a rectangle on one side of a line, without visiting them.
//   x + y >= 3, 0 <= x, y <= 2:  (1, 2), (2, 1), (2, 2)
#pragma once

#include <cstdint>

namespace ridge {

// Numbers from `low` to `high`.
struct IndexRange {
  std::int64_t low = 0, high = 0;
  std::int64_t count() const { return high - low + 1; }
};

// Returns the number of x in the range with a*x >= bound; a is not 0.
__int128 count_above(__int128 a, IndexRange x, __int128 bound);
// Returns the number of pairs with a*x + b*y >= bound; a and b are not 0.
__int128 count_above(__int128 a, IndexRange x, __int128 b, IndexRange y, __int128 bound);

__int128 divide_down(__int128 a, __int128 b);  // floor(a/b), b > 0

}  // namespace ridge
