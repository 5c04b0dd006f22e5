// Functions that a kernel applies to sums before it stores them; they can be nested. On a CPU and in the trace target
// these types only hold the function, which is applied when the result is stored.
#pragma once

#include "ridge/tile/tile.h"

namespace ridge::tile {

// Returns the number of output columns of a work item: that of its sums, unless the kernel folds them
// (`Kernel::columns`).
template <class Kernel> constexpr int output_columns() {
  if constexpr (requires { Kernel::columns; })
    return Kernel::columns;
  else
    return Kernel::config.n;
}

// True if the function F processes full tiles and stores the results itself, on a CPU by `f.tile(EpilogueTile)`. The
// columns that it combines are `col.size` apart. `f.operands()` and `f.results()` list its inputs and outputs for the
// trace target.
template <class F> constexpr bool stores_full_tiles = requires(const F& f) {
  f.operands();
  f.results();
};

// Sums to which f(sum, row, col) is applied.
template <class Sums, class F> struct MappedSums {
  using Sum = typename Sums::Sum;
  static constexpr int rows = Sums::rows, cols = Sums::cols;
  const Sums& sums;
  F f;
};
// Columns j and j + half of sums, combined by f(left, right, row, col); `half` is the number of output columns.
template <class Sums, class F> struct FoldedColumns {
  using Sum = typename Sums::Sum;
  static constexpr int rows = Sums::rows, cols = Sums::cols / 2;
  const Sums& sums;
  F f;
};

}  // namespace ridge::tile
