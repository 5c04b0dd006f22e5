// Computes o = softmax(scale * q * k^T) * v for each head without storing the scores. A work item owns m query rows of
// one head and loops over its keys, kv per step, from the last keys to the first. It keeps for each row the running
// maximum of the scores and, relative to it, the sum of exponentials and the unnormalised o. A step multiplies q by its
// own keys, and the previous step's weights, which are in registers, by that step's values: its exponentials overlap
// those products. A head with 4096 rows, 4096 keys and width 128 takes 8.6 GFLOP and moves 4.2 MB. Algorithm:
// FlashAttention-2 and -3 (Dao 2023; Shah et al. 2024).
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

struct RaggedArgs {              // Extra kernel arguments for sequences of different lengths
  const int* lengths = nullptr;  // Number of keys of each sequence, or null
  LengthDependence length_dependence = {};
};
struct UniformArgs {};

template <AttentionConfig C, class T> struct Attention {
  static constexpr AttentionConfig config = C;
  static constexpr int rings = 2;
  using Q = tile::ResidentTile<T, C.m, C.d>;
  using K = tile::RingTile<0, tile::SharedTile<T, C.kv, C.d>>;
  using V = tile::RingTile<1, tile::SharedTile<T, C.kv, C.d>>;
  template <class Tile> using OperandView =
      std::conditional_t<C.ragged, tile::RaggedView<Tile>, tile::MatricesView<Tile>>;
  template <class E, int N> using ResultView =
      std::conditional_t<C.ragged, tile::RaggedOut<E, C.m, N>, tile::MatricesOut<E, C.m, N>>;
  struct Globals : std::conditional_t<C.ragged, RaggedArgs, UniformArgs> {
    OperandView<Q> q;
    OperandView<K> k;
    OperandView<V> v;
    ResultView<T, C.d> o;
    ResultView<float, 1> lse;  // Natural logarithm of each row's sum of exponentials; not stored if data is null
    Band band;
    float scale_log2 = 0;  // Factor of the scores times log2(e)
    float cap = 0;         // If not 0, a score s is first replaced by cap * tanh(s * scale_over_cap)
    float scale_over_cap = 0;
    int heads_per_key_head = 1;  // Number of query heads that share one key and value head
  };
  struct Resident {
    Q q;
  };
  struct Stage {
    K k;
    V v;
  };
  template <int N> using SumTile = tile::Accumulator<C.m, N, C.consumers, typename tile::AccumulatedType<T>::type>;
  using RowScalars = SumTile<1>;
  struct State {
    SumTile<C.d> o;
    RowScalars row_max = tile::negative_infinity, row_sum = tile::zero_sum;
    tile::RegisterOperand<C.m, C.kv, C.consumers, T>
        weights;  // Weights of this step's keys, which the next step multiplies
  };

  // Returns the number of keys of the item's sequence. Called once per item.
  TILE_FN static int sequence_length(auto& at, const Globals& g) requires(C.ragged) {
    const int sequence = at.matrix() / static_cast<int>(g.q.inner);
    if (g.k.starts != nullptr) return g.k.starts[sequence + 1] - g.k.starts[sequence];
    return g.lengths == nullptr ? 0 : clamp_length(g.lengths[sequence]);
  }
  TILE_FN static decltype(auto) band_of_item(auto& at, const Globals& g) {
    if constexpr (C.ragged)
      return g.band.for_length(at.length(), g.length_dependence);
    else
      return (g.band);
  }
  // Returns the query row of a line of the tile; in ragged kernels a row has one line per head that shares the tile.
  TILE_FN static int row_of_line(auto& at, const Globals& g, int line) {
    if constexpr (C.ragged)
      return at.row() + (line - at.row()) / g.q.lines_per_row;
    else
      return line;
  }
  TILE_FN static int last_row(auto& at, const Globals& g) {
    const int last = row_of_line(at, g, at.row() + C.m - 1);
    if constexpr (C.ragged)
      if (const int rows = row_count(g.q, at.matrix()); last >= rows) return rows - 1;
    return last;
  }
  TILE_FN static tile::StepCount count_steps(auto& at, const Globals& g) {
    if constexpr (C.ragged)
      if (at.row() >= row_count(g.q, at.matrix())) return {0};
    const Band& item_band = band_of_item(at, g);
    const int first = item_band.first_key(at.row()) / C.kv, end = item_band.end_key(last_row(at, g));
    return {end > first * C.kv ? (end + C.kv - 1) / C.kv - first : 1};
  }
  // Returns the first key of a step. Steps go from the last keys to the first.
  TILE_FN static int first_key_of_step(auto& at, const Globals& g, int step) {
    return (band_of_item(at, g).first_key(at.row()) / C.kv + at.steps() - 1 - step) * C.kv;
  }

  TILE_FN static void load_resident(auto& at, Resident& h, const Globals& g) {
    if constexpr (C.ragged)
      at.load(h.q, g.q, at.matrix(), at.row(), row_count(g.q, at.matrix()));
    else
      at.load(h.q, g.q, at.matrix(), at.row());
  }
  // Keys and values after the end of a sequence are loaded as zeros, even if the memory holds NaN.
  TILE_FN static void load(auto& at, Stage& s, const Globals& g) {
    const int key_head = at.matrix() / g.heads_per_key_head, keys = band_of_item(at, g).keys;
    if (!at.is_last()) at.load(s.k, g.k, key_head, first_key_of_step(at, g, at.step()), keys);
    if (!at.is_first()) at.load(s.v, g.v, key_head, first_key_of_step(at, g, at.step() - 1), keys);
  }

  template <class At>
  TILE_FN static void compute(At& at, State& x, const Resident& h, const Stage& s, const Globals& g) {
    if constexpr (At::last) {
      at.mma(x.o, x.weights, s.v);
    } else {
      SumTile<C.kv> scores;
      at.mma(scores, h.q, transposed(s.k));
      if constexpr (!At::first) at.mma(x.o, x.weights, s.v);
      at.wait_for_product(scores);
      RowScalars rescale = exponentiate_scores(at, x, scores, g);
      if constexpr (!At::first) {
        at.wait_for_product(x.o);
        if (at.has_any(rescale, [](auto multiplier) { return multiplier != 1; }))
          at.map(
              x.o, [](auto o, auto multiplier) { return o * multiplier; }, rescale);
      }
      at.copy(x.weights, scores);
    }
  }

  TILE_FN static auto tanh_of(auto x) {
    constexpr float twice_log2_e = 2.885390081777927F;
    return 1 - 2 * tile::inverse_of(1 + tile::exp2_of(x * twice_log2_e));
  }

  // Replaces scores by weights 2^(scale * (score - row_max)) and returns the factor for earlier sums. Lazy rescaling:
  // `row_max` is updated only if a weight would exceed 2^8, which is rare after the first keys.
  TILE_FN static RowScalars exponentiate_scores(auto& at, State& x, auto& scores, const Globals& g) {
    constexpr float rescale_threshold_log2 = 8;
    const float scale = g.scale_log2;
    const int first = first_key_of_step(at, g, at.step());
    if (g.cap != 0) at.map(scores, [&](auto s) { return g.cap * tanh_of(s * g.scale_over_cap); });
    const tile::Range row_range = at.own_rows();
    const Band& item_band = band_of_item(at, g);
    const int row = row_of_line(at, g, static_cast<int>(row_range.begin));
    const int rows = row_of_line(at, g, static_cast<int>(row_range.end()) - 1) - row + 1;
    if (item_band.has_masked_pair(row, rows, first, C.kv))
      at.mask_columns(scores, [&](int line) { return item_band.visible_keys(row_of_line(at, g, line), first); });
    RowScalars new_max = x.row_max, rescale = x.row_max, scaled_max;
    at.reduce(new_max, scores, tile::Max{});
    at.map(
        new_max,
        [&](auto after, auto before) { return (after - before) * scale > rescale_threshold_log2 ? after : before; },
        x.row_max);
    at.map(
        rescale, [&](auto before, auto after) { return after == before ? 1 : tile::exp2_of((before - after) * scale); },
        new_max);
    at.map(
        scaled_max, [&](auto, auto row_max) { return row_max == -INFINITY ? 0 : row_max * scale; }, new_max);
    at.map(
        scores, [&](auto s, auto row_max) { return tile::exp2_of(s * scale - row_max); }, scaled_max);
    at.reduce(x.row_sum, scores, tile::Add{}, rescale);
    x.row_max = new_max;
    return rescale;
  }

  // Configuration of the kernel for a quarter of the columns. The states of key splits are merged in such slices, so
  // that few rows occupy many threads.
  static constexpr AttentionConfig slice_columns(AttentionConfig c) {
    c.d /= column_slices;
    return c;
  }
  static constexpr int column_slices = 4;
  using ColumnSlice = Attention<slice_columns(C), T>;
  TILE_FN static void visit_state(auto& at, State& x) {
    at.visit_state(x.o);
    at.visit_state(x.row_max);
    at.visit_state(x.row_sum);
  }
  // Merges `other`, the state for different keys of the same rows, into x.
  TILE_FN static void merge_states(auto& at, State& x, State& other, const auto& g) {
    RowScalars new_max = x.row_max, x_factor = x.row_max, other_factor = other.row_max;
    at.map(
        new_max, [](auto a, auto b) { return a > b ? a : b; }, other.row_max);
    const auto factor = [&](auto before, auto after) {
      return after == before ? 1 : tile::exp2_of((before - after) * g.scale_log2);
    };
    at.map(x_factor, factor, new_max);
    at.map(other_factor, factor, new_max);
    const auto weighted_sum = [](auto a, auto multiplier, auto b, auto b_multiplier) {
      return a * multiplier + b * b_multiplier;
    };
    at.map(x.row_sum, weighted_sum, x_factor, other.row_sum, other_factor);
    at.map(x.o, weighted_sum, x_factor, other.o, other_factor);
    x.row_max = new_max;
  }

  TILE_FN static void store(auto& at, State& x, const auto& g) {
    constexpr float ln_2 = 0.6931471805599453F;
    RowScalars lse = x.row_max, inverse = x.row_sum;
    at.map(
        lse, [&](auto row_max, auto row_sum) { return row_max * g.scale_log2 * ln_2 + tile::log_of(row_sum); },
        x.row_sum);
    at.store(g.lse, lse);
    at.map(inverse, [](auto row_sum) { return 1 / row_sum; });
    at.map(
        x.o, [](auto o, auto multiplier) { return o * multiplier; }, inverse);
    at.store(g.o, x.o);
  }
};

// Sets the band, scale, cap and head ratio of a kernel's arguments; operand views are set elsewhere.
void set_scalar_args(auto& g, const AttentionProblem& p) {
  constexpr double log2_e = 1.4426950408889634;
  g.band = {static_cast<int>(p.low), static_cast<int>(p.high), static_cast<int>(p.keys), p.moves_with_rows ? 1 : 0};
  g.scale_log2 = static_cast<float>((p.cap > 0 ? 1 : p.scale) * log2_e);
  g.cap = static_cast<float>(p.cap);
  g.scale_over_cap = p.cap > 0 ? static_cast<float>(p.scale / p.cap) : 0;
  g.heads_per_key_head = static_cast<int>(p.heads / p.key_heads);
}
// Sets the extra arguments of a kernel for ragged sequences.
void set_ragged_args(auto& g, const AttentionProblem& p, const int* lengths) {
  if (!p.lengths) return;
  g.lengths = lengths;
  g.length_dependence = length_dependence_of(p);
}

}  // namespace ridge::ops
