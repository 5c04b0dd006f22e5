// Functions of sums that a kernel may store instead of the sums themselves; they compose. On a CPU and for the trace
// target these types only record the function, which is applied when the result is stored.
#pragma once

#include "ridge/tile/tile.h"

namespace ridge::tile {

// Returns the output columns of a work item: those of its sums, unless the kernel folds them (`Kernel::columns`).
template <class Kernel> constexpr int columns_of() {
  if constexpr (requires { Kernel::columns; })
    return Kernel::columns;
  else
    return Kernel::config.n;
}

// True if a function of sums processes a full tile and stores the results itself: on a CPU by `f.tile(EpilogueTile)`,
// where the columns that it folds are `col.size` apart. `f.operands()` lists what it reads and `f.results()` what it
// stores, for the trace target.
template <class F> constexpr bool takes_tiles = requires(const F& f) {
  f.operands();
  f.results();
};

// Applies f(sum, row, col) to each sum.
template <class Sums, class F> struct Mapped {
  using Sum = typename Sums::Sum;
  static constexpr int rows = Sums::rows, cols = Sums::cols;
  const Sums& sums;
  F f;
};
// Applies f(left, right, row, col) to columns j and j + half, where `half` is the number of the item's output columns.
template <class Sums, class F> struct Folded {
  using Sum = typename Sums::Sum;
  static constexpr int rows = Sums::rows, cols = Sums::cols / 2;
  const Sums& sums;
  F f;
};

}  // namespace ridge::tile
