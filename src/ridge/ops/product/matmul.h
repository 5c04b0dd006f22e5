// Kernel definition of D[m, n] = A[m, k] * B[n, k] transposed. Each work item computes one tile of D and pipelines the
// loop over k. For each k, a 128 x 128 tile reads 256 elements and does 2 * 128 * 128 FLOPs: 64 FLOPs per byte of bf16.
#pragma once

#include <type_traits>

#include "ridge/ops/product/config.h"
#include "ridge/tile/tile.h"

namespace ridge::ops {

using tile::Accumulator, tile::Col, tile::GlobalView, tile::OutputView, tile::Range, tile::Row, tile::SharedTile;

template <MatmulConfig C, class Left, class Right, class Out, class Sum = float> struct Matmul {
  static constexpr MatmulConfig config = C;
  using A = SharedTile<Left, C.m, C.k>;
  using B = SharedTile<Right, C.n, C.k>;
  struct PlainGlobals {
    GlobalView<A, Row> a;
    GlobalView<B, Col, tile::constant> b;
    OutputView<Out, C.m, C.n> d;
  };
  struct ScaledGlobals : PlainGlobals {
    tile::BlockScales a_scales, b_scales;
  };
  using Globals = std::conditional_t<C.scales_blocks, ScaledGlobals, PlainGlobals>;
  struct Stage {
    A a;
    B b;
  };
  using State = std::conditional_t<C.adds_pieces, tile::StagedAccumulator<C.m, C.n, C.warpgroups_per_tile()>,
                                   Accumulator<C.m, C.n, C.warpgroups_per_tile(), Sum>>;

  TILE_FN static void load(auto& at, Stage& s, const Globals& g, Range k) {
    at.load(s.a, g.a, at.row(), k);
    at.load(s.b, g.b, at.col(), k);
  }
  TILE_FN static void compute(auto& at, State& acc, const Stage& s) {
    if constexpr (C.scales_blocks)
      at.mma_scaled(acc, s.a, transposed(s.b));
    else
      at.mma(acc, s.a, transposed(s.b));
  }
  TILE_FN static void store(auto& at, const Globals& g, const State& acc) { at.store(g.d, acc, at.row(), at.col()); }
};

}  // namespace ridge::ops
