// Products with few rows: code shared by all instruction sets.
#pragma once

#include <array>
#include <type_traits>
#include <utility>

#include "ridge/tile/cpu/engine.h"

namespace ridge::tile::cpu {

// Products with few rows and both operands along k: loops over k blocks, over column blocks, and over passes, each over
// as many rows as fit in registers. D defines the dot products: Element (of B), Sum, `rows` of one pass, `per_unit`
// elements of A in a unit, `block_columns` columns of a block that several passes share, `columns(rows)` columns per
// call, and multiply<rows, columns>(part, b, c, distance), which prefetches `distance` elements after what it reads.
// Its V is of an unnamed namespace: see block.h.

// Runs one pass of `rows` rows over x.n columns. Each pass prefetches a part of the next columns; if there are several
// passes, the columns of the next block.
template <class D, int rows> void run_pass_along_k(const SkinnyArgs& x, int pass, int passes) {
  constexpr int columns = D::columns(rows);
  const auto* const b = static_cast<const typename D::Element*>(x.b);
  auto* const c = static_cast<typename D::Sum*>(x.c);
  const Index prefetch_distance = (passes == 1 ? columns : x.n) * x.b_stride;
  Index j = 0;
  const auto multiply = [&]<int count>(std::integral_constant<int, count>, Index distance)
      __attribute__((always_inline)) {
    D::template multiply<rows, count>(x, b + j * x.b_stride, c + j, distance);
    j += count;
  };
  // One column at a time would load each row of A for a single sum, so that the last groups share their columns evenly.
  const Index end = columns > 2 && x.n % columns == 1 ? x.n - columns - 1 : x.n;
  for (int iteration = 0; j + columns <= end; iteration = iteration + 1 == passes ? 0 : iteration + 1)
    multiply(std::integral_constant<int, columns>{}, iteration == pass ? prefetch_distance : 0);
  if constexpr (columns > 3) {
    if (x.n - j == 3 || x.n - j == 5) multiply(std::integral_constant<int, 3>{}, 0);
  }
  if constexpr (columns > 2) {
    while (x.n - j > 1) multiply(std::integral_constant<int, 2>{}, 0);
  }
  while (j < x.n) multiply(std::integral_constant<int, 1>{}, 0);
}

template <class D>
constexpr Index left_tail_of() {  // number of units after each row of a k block, as in Engine::left_tail
  if constexpr (requires { D::tail; })
    return D::tail;
  else
    return 0;
}

// Returns the address of element k of a column, or of the block that begins with it if `Element` is a byte of blocks.
template <class Element> [[gnu::always_inline]] constexpr const Element* advance_along_k(const Element* b, Index k) {
  if constexpr (requires { Element::bytes_of(k); })
    return b + Element::bytes_of(k);
  else
    return b + k;
}

using PassFunction = void (*)(const SkinnyArgs&, int pass, int passes);
template <class D, int... i>
constexpr std::array<PassFunction, sizeof...(i)> pass_functions(std::integer_sequence<int, i...>) {
  return {run_pass_along_k<D, i + 1>...};
}

template <class D> void multiply_skinny_along_k(const SkinnyArgs& x) {
  static constexpr auto by_rows = pass_functions<D>(std::make_integer_sequence<int, D::rows>{});
  constexpr Index min_k_block = skinny_k_block_units(max_skinny_rows) * D::per_unit;
  if (x.rows <= D::rows && x.k <= min_k_block) return by_rows[x.rows - 1](x, 0, 1);
  const Index k_block = skinny_k_block_units(x.rows) * D::per_unit;
  const int passes = (x.rows + D::rows - 1) / D::rows;
  const Index block_columns = passes == 1 ? x.n : D::block_columns;
  constexpr Index tail = left_tail_of<D>();
  const Unit* a_rows = x.a_by_rows;
  for (Index k = 0; k < x.k; k += k_block) {
    const Index units = ((x.k - k < k_block ? x.k - k : k_block) + D::per_unit - 1) / D::per_unit + tail;
    for (Index j = 0; j < x.n; j += block_columns) {
      SkinnyArgs part = x;
      part.k = x.k - k < k_block ? x.k - k : k_block;
      part.n = x.n - j < block_columns ? x.n - j : block_columns;
      part.b = advance_along_k(static_cast<const typename D::Element*>(x.b) + j * x.b_stride, k);
      part.accumulate = x.accumulate || k > 0;
      for (int pass = 0, row = 0; pass < passes; ++pass, row += part.rows) {
        part.rows = x.rows / passes + (pass < x.rows % passes ? 1 : 0);
        part.a_by_rows = a_rows + row * units;
        part.c = static_cast<typename D::Sum*>(x.c) + row * x.c_stride + j;
        by_rows[part.rows - 1](part, pass, passes);
      }
    }
    a_rows += x.rows * units;
  }
}

}  // namespace ridge::tile::cpu
