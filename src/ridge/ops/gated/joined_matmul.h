// Computes D = A * B + A' * B' with one set of accumulators. The k loop runs over the first pair of operands and, from
// `second_begin` (a multiple of the stage size) on, over the second pair. Elements outside a matrix read as zero.
#pragma once

#include "ridge/ops/product/matmul.h"

namespace ridge::ops {

template <MatmulConfig C, class T> struct JoinedMatmul {
  static constexpr MatmulConfig config = C;
  using A = SharedTile<T, C.m, C.k>;
  using B = SharedTile<T, C.n, C.k>;
  struct Globals {
    GlobalView<A, Row> a, second_a;
    GlobalView<B, Col> b, second_b;
    OutputView<T, C.m, C.n> d;
    int second_begin = 0;
  };
  struct Stage {
    A a;
    B b;
  };
  using State = Accumulator<C.m, C.n, C.warpgroups_per_tile()>;

  TILE_FN static void load(auto& at, Stage& s, const Globals& g, Range k) {
    const bool is_second = k.begin >= g.second_begin;
    if (is_second) k.begin -= g.second_begin;
    at.load(s.a, is_second ? g.second_a : g.a, at.row(), k);
    at.load(s.b, is_second ? g.second_b : g.b, at.col(), k);
  }
  TILE_FN static void compute(auto& at, State& acc, const Stage& s) { at.mma(acc, s.a, transposed(s.b)); }
  TILE_FN static void store(auto& at, const Globals& g, const State& acc) { at.store(g.d, acc, at.row(), at.col()); }
};

}  // namespace ridge::ops
