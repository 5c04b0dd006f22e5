// D = f(X * U, X * V): a gated layer in one pass over X. Each work item owns h columns of D; the same h columns of U
// and of V are two halves of one tile, multiplied at once, so their sums lie side by side and D's elements are made of
// pairs (Dauphin et al. 2017; Shazeer 2020, "GLU variants"). Neither product goes to memory.
#pragma once

#include "ridge/kernels/matmul.h"

namespace ridge::kernels {

using tile::rows;

// Combine: D's element of the two sums and their place, combine(u, v, row, col). W: the weights' type.
template <MatmulConfig C, class T, class Out, class Combine, class W = T> struct GatedMatmul {
  static constexpr MatmulConfig config = C;
  static constexpr int columns = C.n / 2;
  using X = SharedTile<T, C.m, C.k>;
  using Half = SharedTile<W, columns, C.k>;
  using Pair = SharedTile<W, C.n, C.k>;
  struct Globals {
    GlobalView<X, Row> x;
    GlobalView<Half, Col, tile::constant> u, v;
    OutputView<Out, C.m, columns> d;
    Combine combine;
  };
  struct Stage {
    X x;
    Pair w;
  };
  using State = Accumulator<C.m, C.n, C.sharers()>;

  TILE_FN static void load(auto& at, Stage& s, const Globals& g, Range k) {
    at.load(s.x, g.x, at.row(), k);
    at.load(rows<0, columns>(s.w), g.u, at.col(), k);
    at.load(rows<columns, columns>(s.w), g.v, at.col(), k);
  }
  TILE_FN static void compute(auto& at, State& acc, const Stage& s) { at.mma(acc, s.x, transposed(s.w)); }
  TILE_FN static void store(auto& at, const Globals& g, const State& acc) {
    at.store(g.d, at.fold(acc, g.combine), at.row(), at.col());
  }
};

}  // namespace ridge::kernels
