// Computes the gradients of attention (attention.h) with respect to q, k and v. A work item owns m keys of a head and
// loops over the query rows that see them, q rows per step, for each head that shares the keys. dK and dV stay in
// registers, and no two items add to the same ones. Scores are transposed, [keys, rows], so that the weights P and the
// score gradients dS are left operands without a transposition:
//
//   P = 2^(scale * K Q^T - lse)      dV += P dO      dS = P * (V dO^T - delta)      dK += dS Q      dQ = dS^T K
//
// where delta is the sum of dO * O along a row. dQ is accumulated in f32 in memory, in the register layout of the
// threads, and rounded by a later pass; the adds overlap the product for dK. Each pair of a row and a key takes 10 * d
// FLOP. Algorithm: FlashAttention-2 and -3 (Dao 2023; Shah et al. 2024).
#pragma once

#include "ridge/ops/attention/config.h"
#include "ridge/ops/attention/mask.h"
#include "ridge/ops/attention/problem.h"
#include "ridge/tile/steps.h"
#ifdef __CUDACC__
#include "ridge/tile/sm90/registers.h"
#else
#include "ridge/tile/cpu/steps.h"
#endif

namespace ridge::ops {

template <AttentionBackwardConfig C, class T> struct AttentionBackward {
  static constexpr AttentionBackwardConfig config = C;
  static constexpr int rings = 3;
  static constexpr bool lockstep = true;
  using Keys = tile::HeldTile<T, C.m, C.d>;
  using Q = tile::InRing<0, tile::SharedTile<T, C.q, C.d>, 2>;
  using DOut = tile::InRing<1, tile::SharedTile<T, C.q, C.d>, 2>;
  using Numbers = tile::InRing<2, tile::SharedTile<typename tile::SumOf<T>::type, 1, 2 * C.q>,
                               0>;  // For each row log2 of its sum of exponentials, then each row's delta
  // Each warpgroup has its own 64 keys; if that takes too many registers, all share 64 keys and split the columns.
  static constexpr bool by_columns = C.m < 64 * C.consumers;
  // dQ is computed as [rows, columns] if each warpgroup has 64 rows, and transposed otherwise.
  static constexpr bool along_rows = by_columns || C.q == 64 * C.consumers;
  template <int M, int N> using Sums = tile::Accumulator<M, N, C.consumers, typename tile::SumOf<T>::type>;
  using DQ = std::conditional_t<along_rows, Sums<C.q, C.d>, Sums<C.d, C.q>>;
  struct Globals {
    tile::MatricesView<Keys> k, v;
    tile::MatricesView<Q> q;
    tile::MatricesView<DOut> dout;
    tile::MatricesView<Numbers> numbers;  // Per head [row tiles, 2 * q]
    tile::MatricesOut<T, C.m, C.d> dk, dv;
    tile::SumsInMemory dq;
    Band band;
    int rows = 0;          // Number of query rows of a head
    float scale_log2 = 0;  // Factor of the scores times log2(e)
    float scale = 0;
    int heads_of_keys = 1;  // Number of query heads that share one key and value head
  };
  struct None {};
  using Shared = std::conditional_t<by_columns, tile::HeldTile<T, C.m, C.q>, tile::HeldTile<T, C.q, C.m>>;
  struct Held {
    Keys k, v;
    Shared slopes[2];  // Double buffer: other warpgroups may still read the previous step's
    std::conditional_t<by_columns, Shared, None> weights[2];
  };
  struct Stage {
    Q q;
    DOut dout;
    Numbers numbers;
  };
  struct State {
    Sums<C.m, C.d> dk, dv;
  };

  // Returns the range of row tiles that see some of the item's keys. At least one row sees them.
  TILE_FN static tile::Span tiles(auto& at, const Globals& g) {
    return {g.band.first_row(at.row()) / C.q, (g.band.end_row(at.row() + C.m - 1, g.rows) + C.q - 1) / C.q};
  }
  TILE_FN static tile::Steps steps(auto& at, const Globals& g) {
    const tile::Span rows = tiles(at, g);
    return {(rows.end - rows.begin) * g.heads_of_keys, rows.end - rows.begin};
  }
  // Return the query head and the row tile of the current step. Steps start at the last tile, so that concurrent items
  // read the same rows from the L2. Ordered adds start at the first visible tile: no item waits under a causal mask.
  TILE_FN static int head(auto& at, const Globals& g) { return at.matrix() * g.heads_of_keys + at.round(); }
  TILE_FN static int tile(auto& at, const Globals& g) {
    const tile::Span rows = tiles(at, g);
    return C.ordered ? rows.begin + at.step_of_round() : rows.end - 1 - at.step_of_round();
  }

  TILE_FN static void hold(auto& at, Held& h, const Globals& g) {
    at.load(h.k, g.k, at.matrix(), at.row());
    at.load(h.v, g.v, at.matrix(), at.row());
  }
  TILE_FN static void load(auto& at, Stage& s, const Globals& g) {
    at.load(s.q, g.q, head(at, g), tile(at, g) * C.q);
    at.load(s.numbers, g.numbers, head(at, g), tile(at, g));
    at.load(s.dout, g.dout, head(at, g), tile(at, g) * C.q);
  }

  template <class At> TILE_FN static void compute(At& at, State& x, const Held& h, const Stage& s, const Globals& g) {
    if constexpr (At::last) {
      at.join();
      at.meet();
    } else {
      Sums<C.m, C.q> p, ds;
      DQ dq;
      at.mma(p, h.k, transposed(s.q));
      at.mma(ds, h.v, transposed(s.dout));
      if constexpr (C.ordered) at.ask_turn(g.dq, dq, head(at, g), tile(at, g), keys_behind(at, g));
      at.settle(p);
      const int column = at.own_column(p), first = tile(at, g) * C.q + column;
      const tile::Range own = at.own_rows();
      const bool cuts = g.band.cuts(first, C.q, static_cast<int>(own.begin), static_cast<int>(own.size));
      const auto seen_by = [&](int key) { return g.band.seen_by(key, first); };
      if (cuts) at.clip(p, seen_by, -INFINITY);
      const auto lse = at.columns(s.numbers, 0, p);
      at.map(
          p, [&](auto score, auto most) { return tile::exp2_of(score * g.scale_log2 - most); }, lse);
      tile::Operands<C.m, C.q, C.consumers, T> weights, slopes;
      at.copy(weights, p);
      if constexpr (by_columns)
        at.copy(h.weights[at.step() % 2], weights);
      else
        at.mma(x.dv, weights, s.dout);
      at.settle(ds);
      const auto delta = at.columns(s.numbers, C.q, ds);
      at.map(
          ds, [](auto slope, auto weight, auto mean) { return weight * (slope - mean); }, weights, delta);
      if (cuts) at.clip(ds, seen_by, 0.0F);
      at.copy(slopes, ds);
      const Shared& shared = h.slopes[at.step() % 2];
      if constexpr (by_columns)
        at.copy(shared, slopes);
      else
        at.copy(shared, transposed(slopes));
      at.join();
      at.meet();
      if constexpr (by_columns) {
        at.mma(x.dv, h.weights[at.step() % 2], s.dout);
        at.mma(dq, transposed(shared), h.k);
        at.mma(x.dk, shared, s.q);
      } else {
        if constexpr (along_rows)
          at.mma(dq, shared, h.k);
        else
          at.mma(dq, transposed(h.k), transposed(shared));
        at.mma(x.dk, slopes, s.q);
      }
      at.settle(dq);
      at.add(g.dq, dq, head(at, g), tile(at, g));
      at.settle(x.dk);
    }
  }

  // Returns the number of items with later keys that add to the row tile. Their adds precede this item's, because they
  // start earlier under a causal mask.
  TILE_FN static int keys_behind(auto& at, const Globals& g) {
    const int behind = (tile(at, g) + 1) * C.q, last_row = (behind < g.rows ? behind : g.rows) - 1;
    return (g.band.end(last_row) - 1) / C.m - at.row() / C.m;
  }

  TILE_FN static void store(auto& at, State& x, const Globals& g) {
    at.map(x.dk, [&](auto sum) { return sum * g.scale; });
    at.store(g.dk, x.dk);
    at.store(g.dv, x.dv);
  }
};

}  // namespace ridge::ops
