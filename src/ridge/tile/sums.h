// What a text may do with its sums beside storing them: functions of them, which compose. On a CPU and for the trace
// target they are only named here; nothing is computed before they are stored.
#pragma once

#include "ridge/tile/tile.h"

namespace ridge::tile {

// Columns of the output that a work item owns: those of its sums, unless the text says that it folds them.
template <class Kernel> constexpr int columns_of() {
  if constexpr (requires { Kernel::columns; })
    return Kernel::columns;
  else
    return Kernel::config.n;
}

// A function of sums may take a whole tile of them and store what it makes of them itself, as fast as a target can: on
// a CPU `f.tile(finishing)`, the columns that it folds lying `col.size` apart. `f.operands()` says what it reads and
// `f.results()` what it stores, for the trace target.
template <class F> constexpr bool takes_tiles = requires(const F& f) {
  f.operands();
  f.results();
};

// f(sum, row, col) of each.
template <class Sums, class F> struct Mapped {
  using Sum = typename Sums::Sum;
  static constexpr int rows = Sums::rows, cols = Sums::cols;
  const Sums& of;
  F f;
};
// f(left, right, row, col) of columns j and j + half, `half` being as wide as the work item's columns.
template <class Sums, class F> struct Folded {
  using Sum = typename Sums::Sum;
  static constexpr int rows = Sums::rows, cols = Sums::cols / 2;
  const Sums& of;
  F f;
};

}  // namespace ridge::tile
