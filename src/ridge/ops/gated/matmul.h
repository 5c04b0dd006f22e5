// Computes D = f(A * B, A * C), a gated layer (Dauphin et al. 2017; Shazeer 2020, "GLU variants"), in one pass over A.
// The same columns of B and C are the two halves of one shared-memory tile, so each thread has both sums of its
// elements of D. Neither product is stored in memory.
#pragma once

#include "ridge/ops/product/matmul.h"

namespace ridge::ops {

using tile::rows;

// `Combine` computes an element of D: combine(u, v, row, col) of the two sums. `Weights` is the type of B and C.
template <MatmulConfig Config, class T, class Out, class Combine, class Weights = T> struct GatedMatmul {
  static constexpr MatmulConfig config = Config;
  static constexpr int columns = config.n / 2;
  using A = SharedTile<T, config.m, config.k>;
  using Half = SharedTile<Weights, columns, config.k>;
  using Pair = SharedTile<Weights, config.n, config.k>;
  struct Globals {
    GlobalView<A, Row> a;
    GlobalView<Half, Col, tile::constant> b, c;
    OutputView<Out, config.m, columns> d;
    Combine combine;
  };
  struct Stage {
    A a;
    Pair pair;
  };
  using State = Accumulator<config.m, config.n, config.warpgroups_per_tile()>;

  TILE_FN static void load(auto& at, Stage& s, const Globals& g, Range k) {
    at.load(s.a, g.a, at.row(), k);
    at.load(rows<0, columns>(s.pair), g.b, at.col(), k);
    at.load(rows<columns, columns>(s.pair), g.c, at.col(), k);
  }
  TILE_FN static void compute(auto& at, State& acc, const Stage& s) { at.mma(acc, s.a, transposed(s.pair)); }
  TILE_FN static void store(auto& at, const Globals& g, const State& acc) {
    at.store(g.d, at.fold(acc, g.combine), at.row(), at.col());
  }
};

}  // namespace ridge::ops
