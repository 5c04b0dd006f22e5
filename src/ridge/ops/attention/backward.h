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
#include "ridge/tile/sm90/register_tiles.h"
#else
#include "ridge/tile/cpu/steps.h"
#endif

namespace ridge::ops {

template <AttentionBackwardConfig C, class T> struct AttentionBackward {
  static constexpr AttentionBackwardConfig config = C;
  static constexpr int rings = 3;
  static constexpr bool lockstep = true;
  using Keys = tile::ResidentTile<T, C.m, C.d>;
  using Q = tile::RingTile<0, tile::SharedTile<T, C.q, C.d>, 2>;
  using DOut = tile::RingTile<1, tile::SharedTile<T, C.q, C.d>, 2>;
  using RowStats = tile::RingTile<2, tile::SharedTile<typename tile::AccumulatedType<T>::type, 1, 2 * C.q>,
                                  0>;  // For each row log2 of its sum of exponentials, then each row's delta
  // Each warpgroup has its own 64 keys; if that takes too many registers, all share 64 keys and split the columns.
  static constexpr bool splits_columns = C.m < 64 * C.consumers;
  // dQ is computed as [rows, columns] if each warpgroup has 64 rows, and transposed otherwise.
  static constexpr bool along_rows = splits_columns || C.q == 64 * C.consumers;
  template <int M, int N> using SumTile = tile::Accumulator<M, N, C.consumers, typename tile::AccumulatedType<T>::type>;
  using DQ = std::conditional_t<along_rows, SumTile<C.q, C.d>, SumTile<C.d, C.q>>;
  struct Globals {
    tile::MatricesView<Keys> k, v;
    tile::MatricesView<Q> q;
    tile::MatricesView<DOut> dout;
    tile::MatricesView<RowStats> row_stats;  // Per head [row tiles, 2 * q]
    tile::MatricesOut<T, C.m, C.d> dk, dv;
    tile::SumsInMemory dq;
    Band band;
    int rows = 0;          // Number of query rows of a head
    float scale_log2 = 0;  // Factor of the scores times log2(e)
    float scale = 0;
    int heads_per_key_head = 1;  // Number of query heads that share one key and value head
  };
  struct NoTile {};
  using ScoreTile =
      std::conditional_t<splits_columns, tile::ResidentTile<T, C.m, C.q>, tile::ResidentTile<T, C.q, C.m>>;
  struct Resident {
    Keys k, v;
    ScoreTile ds[2];  // Double buffer: other warpgroups may still read the previous step's
    std::conditional_t<splits_columns, ScoreTile, NoTile> weights[2];
  };
  struct Stage {
    Q q;
    DOut dout;
    RowStats row_stats;
  };
  struct State {
    SumTile<C.m, C.d> dk, dv;
  };

  // Returns the range of row tiles that see some of the item's keys. At least one row sees them.
  TILE_FN static tile::IntRange visible_row_tiles(auto& at, const Globals& g) {
    return {g.band.first_row(at.row()) / C.q, (g.band.end_row(at.row() + C.m - 1, g.rows) + C.q - 1) / C.q};
  }
  TILE_FN static tile::StepCount count_steps(auto& at, const Globals& g) {
    const tile::IntRange row_tiles = visible_row_tiles(at, g);
    return {(row_tiles.end - row_tiles.begin) * g.heads_per_key_head, row_tiles.end - row_tiles.begin};
  }
  // Return the query head and the row tile of the current step. Steps start at the last tile, so that concurrent items
  // read the same rows from the L2. Ordered adds start at the first visible tile: no item waits under a causal mask.
  TILE_FN static int query_head(auto& at, const Globals& g) { return at.matrix() * g.heads_per_key_head + at.round(); }
  TILE_FN static int row_tile(auto& at, const Globals& g) {
    const tile::IntRange row_tiles = visible_row_tiles(at, g);
    return C.ordered ? row_tiles.begin + at.step_of_round() : row_tiles.end - 1 - at.step_of_round();
  }

  TILE_FN static void load_resident(auto& at, Resident& h, const Globals& g) {
    at.load(h.k, g.k, at.matrix(), at.row());
    at.load(h.v, g.v, at.matrix(), at.row());
  }
  TILE_FN static void load(auto& at, Stage& s, const Globals& g) {
    at.load(s.q, g.q, query_head(at, g), row_tile(at, g) * C.q);
    at.load(s.row_stats, g.row_stats, query_head(at, g), row_tile(at, g));
    at.load(s.dout, g.dout, query_head(at, g), row_tile(at, g) * C.q);
  }

  template <class At>
  TILE_FN static void compute(At& at, State& x, const Resident& h, const Stage& s, const Globals& g) {
    if constexpr (At::last) {
      at.arrive_at_barrier();
      at.wait_at_barrier();
    } else {
      SumTile<C.m, C.q> p, ds;
      DQ dq;
      at.mma(p, h.k, transposed(s.q));
      at.mma(ds, h.v, transposed(s.dout));
      if constexpr (C.ordered) at.request_turn(g.dq, dq, query_head(at, g), row_tile(at, g), count_later_items(at, g));
      at.wait_for_product(p);
      const int first_own_column = at.first_own_column(p), first_row = row_tile(at, g) * C.q + first_own_column;
      const tile::Range key_range = at.own_rows();
      const bool has_mask =
          g.band.has_masked_pair(first_row, C.q, static_cast<int>(key_range.begin), static_cast<int>(key_range.size));
      const auto visible_rows = [&](int key) { return g.band.visible_rows(key, first_row); };
      if (has_mask) at.mask_columns(p, visible_rows, -INFINITY);
      const auto lse = at.column_values(s.row_stats, 0, p);
      at.map(
          p, [&](auto score, auto row_lse) { return tile::exp2_of(score * g.scale_log2 - row_lse); }, lse);
      tile::RegisterOperand<C.m, C.q, C.consumers, T> weights, ds_operand;
      at.copy(weights, p);
      if constexpr (splits_columns)
        at.copy(h.weights[at.step() % 2], weights);
      else
        at.mma(x.dv, weights, s.dout);
      at.wait_for_product(ds);
      const auto delta = at.column_values(s.row_stats, C.q, ds);
      at.map(
          ds, [](auto gradient, auto weight, auto row_delta) { return weight * (gradient - row_delta); }, weights,
          delta);
      if (has_mask) at.mask_columns(ds, visible_rows, 0.0F);
      at.copy(ds_operand, ds);
      const ScoreTile& ds_tile = h.ds[at.step() % 2];
      if constexpr (splits_columns)
        at.copy(ds_tile, ds_operand);
      else
        at.copy(ds_tile, transposed(ds_operand));
      at.arrive_at_barrier();
      at.wait_at_barrier();
      if constexpr (splits_columns) {
        at.mma(x.dv, h.weights[at.step() % 2], s.dout);
        at.mma(dq, transposed(ds_tile), h.k);
        at.mma(x.dk, ds_tile, s.q);
      } else {
        if constexpr (along_rows)
          at.mma(dq, ds_tile, h.k);
        else
          at.mma(dq, transposed(h.k), transposed(ds_tile));
        at.mma(x.dk, ds_operand, s.q);
      }
      at.wait_for_product(dq);
      at.add_to_memory(g.dq, dq, query_head(at, g), row_tile(at, g));
      at.wait_for_product(x.dk);
    }
  }

  // Returns the number of items with later keys that add to the row tile. Their adds precede this item's, because they
  // start earlier under a causal mask.
  TILE_FN static int count_later_items(auto& at, const Globals& g) {
    const int end_row = (row_tile(at, g) + 1) * C.q, last_row = (end_row < g.rows ? end_row : g.rows) - 1;
    return (g.band.end_key(last_row) - 1) / C.m - at.row() / C.m;
  }

  TILE_FN static void store(auto& at, State& x, const Globals& g) {
    at.map(x.dk, [&](auto sum) { return sum * g.scale; });
    at.store(g.dk, x.dk);
    at.store(g.dv, x.dv);
  }
};

}  // namespace ridge::ops
