// Types of kernels that process rows independently. A row is processed in passes. Every pass but the last returns a
// number, and each pass receives the numbers of the earlier ones:
//
//   auto pass(auto& at, const Globals& g) { return at.reduce(at.load(g.x), Max{}); }
//   auto pass(auto& at, const Globals& g, auto most) {
//     auto e = at.load(g.x);
//     at.map(e, [](auto x, auto top) { return power_of<Y>(x - top); }, most);
//     at.save_row(e);                                    // later passes read it as at.saved_row()
//     return at.reduce(e, Add{}, [](auto sum, const Globals&) { return 1 / sum; });
//   }
//   void pass(auto& at, const Globals& g, auto most, auto scale) { … at.store(g.y, e); }
//
// `load` returns the elements that a target processes together: two vectors on a CPU (tile/cpu/rows.h), the elements of
// one lane on a CUDA device (tile/cuda/rows.h), the full row in the reference (tile/reference/rows.h). The result of
// `reduce` over the row is the number that the pass returns. A kernel may state how many of the earlier numbers a pass
// reads, `static constexpr int needs(int pass)`; the default is all. A target may reduce independent passes together;
// then a pass receives arbitrary values for the numbers that it does not read.
#pragma once

#include "ridge/tile/joins.h"

namespace ridge::tile {

// Rows with contiguous elements, Globals' x and y; strides are in elements. `which` numbers the inputs of a kernel.
template <class T, int which = 0> struct RowsView {
  using type = T;
  const T* data = nullptr;
  Index row_stride = 0;
};
template <class T> struct RowsOut {
  using type = T;
  T* data = nullptr;
  Index row_stride = 0;
};
// One number for each row, stored by a last pass that loads nothing: the output of row reductions.
template <class T> struct NumbersOut {
  using type = T;
  T* data = nullptr;
  Index row_stride = 0;
};
// One number for each column: the last pass calls `reduce_columns`, whose argument is reduced over all rows in order,
// after the earlier passes of each row.
template <class T> struct ColumnsOut {
  using type = T;
  T* data = nullptr;
};
template <class Y> constexpr bool is_number = false;
template <class T> constexpr bool is_number<NumbersOut<T>> = true;
template <class Text> constexpr bool leaves_number = is_number<decltype(Text::Globals::y)>;
template <class Y> constexpr bool is_column = false;
template <class T> constexpr bool is_column<ColumnsOut<T>> = true;
template <class Text> constexpr bool goes_across = is_column<decltype(Text::Globals::y)>;
// An input with one number for each column, the same for all rows.
template <class T> struct ColumnsView {
  using type = T;
  const T* data = nullptr;
};

// Result of a pass: the elements `of` to reduce by `Kind`, and the function `Finalize` to apply to the reduced value.
template <class Kind_, class Part, class Leaves_> struct Reduction {
  using Kind = Kind_;
  using Leaves = Leaves_;
  Part of;
};
struct AsJoined {
  TILE_FN auto operator()(auto joined, const auto&) const { return joined; }
};

struct Largest {};  // propagates NaN; with Max a target may drop it
struct Least {};

// Returns the reduction of two partial results (for Squares, of values that are already squared).
template <class Real> TILE_FN Real joined(Add, Real a, Real b) { return a + b; }
template <class Real> TILE_FN Real joined(Squares, Real a, Real b) { return a + b; }
template <class Real> TILE_FN Real joined(Largest, Real a, Real b) { return b > a || b != b ? b : a; }
template <class Real> TILE_FN Real joined(Max, Real a, Real b) { return joined(Largest{}, a, b); }
template <class Real> TILE_FN Real joined(Least, Real a, Real b) { return b < a || b != b ? b : a; }

// Type of the reduced numbers of rows that are stored as T.
template <class T> struct NumberOf { using type = float; };
template <> struct NumberOf<double> { using type = double; };

// Returns the round in which a pass is reduced; independent passes are reduced in the same round.
template <class Text> TILE_FN constexpr int needs_of(int pass) {
  if constexpr (requires { Text::needs(pass); })
    return Text::needs(pass);
  else
    return pass;
}
template <class Text> TILE_FN constexpr int round_of(int pass) {
  int round = 0;
  for (int before = 0; before < needs_of<Text>(pass); ++before)
    if (round_of<Text>(before) >= round) round = round_of<Text>(before) + 1;
  return round;
}

// List of the storage formats of a kernel's rows.
template <class... T> struct Formats {};

}  // namespace ridge::tile
