#include "ridge/roofline/regions/lattice.h"

#include <algorithm>

namespace ridge {
namespace {

// Returns the sum of floor((a*i + b)/m) over 0 <= i < n, for a, b >= 0. Each step exchanges the roles of a and m, as in
// Euclid's algorithm.
__int128 sum_quotients(__int128 n, __int128 m, __int128 a, __int128 b) {
  __int128 sum = 0;
  while (true) {
    sum += (n - 1) * n / 2 * (a / m) + n * (b / m);
    a %= m;
    b %= m;
    const __int128 last = a * n + b;
    if (last < m) return sum;
    n = last / m;
    b = last % m;
    std::swap(m, a);
  }
}

// Returns the number of pairs with a*x + b*y <= bound, 0 <= x < columns, 0 <= y < rows; a, b > 0.
__int128 count_below(__int128 a, __int128 columns, __int128 b, __int128 rows, __int128 bound) {
  if (bound < 0) return 0;
  const __int128 end = std::min(columns, bound / a + 1);  // Columns with a pair
  const __int128 over = bound - b * (rows - 1);
  const __int128 full = over < 0 ? 0 : std::min(end, over / a + 1);  // Columns with all rows
  const __int128 partial = end - full;
  if (partial <= 0) return full * rows;
  return full * rows + partial + sum_quotients(partial, b, a, bound - a * (end - 1));
}

}  // namespace

__int128 divide_down(__int128 a, __int128 b) { return a / b - (a % b < 0); }

__int128 count_above(__int128 a, IndexRange x, __int128 bound) {
  if (a > 0) return std::clamp<__int128>(x.high + divide_down(-bound, a) + 1, 0, x.count());
  return std::clamp<__int128>(divide_down(-bound, -a) - x.low + 1, 0, x.count());
}

__int128 count_above(__int128 a, IndexRange x, __int128 b, IndexRange y, __int128 bound) {
  // The complement a*x + b*y <= bound - 1, with indices that count from the corner where the sum is least.
  const __int128 least = a * (a > 0 ? x.low : x.high) + b * (b > 0 ? y.low : y.high);
  const __int128 all = static_cast<__int128>(x.count()) * y.count();
  return all - count_below(a > 0 ? a : -a, x.count(), b > 0 ? b : -b, y.count(), bound - 1 - least);
}

}  // namespace ridge
