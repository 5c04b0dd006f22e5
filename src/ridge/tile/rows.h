// Types of kernels that process rows independently. A row is processed in passes. Every pass but the last returns a
// number, and each pass receives the numbers of the earlier passes:
//
//   auto pass(auto& at, const Globals& g) { return at.reduce(at.load(g.x), Max{}); }
//   auto pass(auto& at, const Globals& g, auto row_max) {
//     auto e = at.load(g.x);
//     at.map(e, [](auto x, auto max) { return scaled_exp<Y>(x - max); }, row_max);
//     at.save_row(e);                                    // later passes read it as at.saved_row()
//     return at.reduce(e, Add{}, [](auto sum, const Globals&) { return 1 / sum; });
//   }
//   void pass(auto& at, const Globals& g, auto row_max, auto scale) { … at.store(g.y, e); }
//
// `load` returns the elements that a target processes together: two vectors on a CPU (tile/cpu/rows.h), the elements of
// one lane on a CUDA device (tile/cuda/rows.h), the full row in the reference (tile/reference/rows.h). The result of
// `reduce` over the row is the number that the pass returns. A kernel may state how many of the earlier numbers a pass
// reads, `static constexpr int needed_results(int pass)`; the default is all. A target may reduce independent passes
// together; then a pass receives arbitrary values for the numbers that it does not read.
#pragma once

#include "ridge/tile/reductions.h"

namespace ridge::tile {

// Input rows and output rows, with contiguous elements; strides are in elements. `which` numbers the inputs of a
// kernel.
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
// Output of row reductions: one number for each row, stored by a last pass that loads nothing.
template <class T> struct NumbersOut {
  using type = T;
  T* data = nullptr;
  Index row_stride = 0;
};
// Output of column reductions: one number for each column. The last pass calls `reduce_columns`, whose argument is
// reduced over all rows in order.
template <class T> struct ColumnsOut {
  using type = T;
  T* data = nullptr;
};
template <class Y> constexpr bool is_numbers_out = false;
template <class T> constexpr bool is_numbers_out<NumbersOut<T>> = true;
template <class Kernel> constexpr bool is_row_reduction = is_numbers_out<decltype(Kernel::Globals::y)>;
template <class Y> constexpr bool is_columns_out = false;
template <class T> constexpr bool is_columns_out<ColumnsOut<T>> = true;
template <class Kernel> constexpr bool is_column_reduction = is_columns_out<decltype(Kernel::Globals::y)>;
// An input with one number for each column, the same for all rows.
template <class T> struct ColumnsView {
  using type = T;
  const T* data = nullptr;
};

// Result of a pass: the elements `of` to reduce by `Kind`, and the function `Finalize` to apply to the reduced value.
template <class Kind_, class Part, class Finalize_> struct PassResult {
  using Kind = Kind_;
  using Finalize = Finalize_;
  Part of;
};
struct Identity {
  TILE_FN auto operator()(auto combined, const auto&) const { return combined; }
};

struct MaxOrNan {};  // propagates NaN, unlike Max, which may ignore NaN
struct MinOrNan {};

// Returns the reduction of two partial results (for SumOfSquares, of values that are already squared).
template <class Real> TILE_FN Real combine_values(Add, Real a, Real b) { return a + b; }
template <class Real> TILE_FN Real combine_values(SumOfSquares, Real a, Real b) { return a + b; }
template <class Real> TILE_FN Real combine_values(MaxOrNan, Real a, Real b) { return b > a || b != b ? b : a; }
template <class Real> TILE_FN Real combine_values(Max, Real a, Real b) { return combine_values(MaxOrNan{}, a, b); }
template <class Real> TILE_FN Real combine_values(MinOrNan, Real a, Real b) { return b < a || b != b ? b : a; }

// Type of the numbers to which rows of T are reduced.
template <class T> struct NumberType { using type = float; };
template <> struct NumberType<double> { using type = double; };

// Returns how many of the earlier numbers a pass reads.
template <class Kernel> TILE_FN constexpr int needed_numbers(int pass) {
  if constexpr (requires { Kernel::needed_results(pass); })
    return Kernel::needed_results(pass);
  else
    return pass;
}
// Returns the round in which a pass is reduced; independent passes are reduced in the same round.
template <class Kernel> TILE_FN constexpr int reduction_round(int pass) {
  int round = 0;
  for (int before = 0; before < needed_numbers<Kernel>(pass); ++before)
    if (reduction_round<Kernel>(before) >= round) round = reduction_round<Kernel>(before) + 1;
  return round;
}

// List of the storage formats of a kernel's rows.
template <class... T> struct RowFormats {};

}  // namespace ridge::tile
