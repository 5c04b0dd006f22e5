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
#include "ridge/tile/sm90/registers.h"
#else
#include "ridge/tile/cpu/steps.h"
#endif

namespace ridge::ops {

struct Differing {               // Extra kernel arguments for sequences of different lengths
  const int* lengths = nullptr;  // Length of each sequence; null if all have the same length
  Moves moves = {};
};
struct Alike {};

template <AttentionConfig C, class T> struct Attention {
  static constexpr AttentionConfig config = C;
  static constexpr int rings = 2;
  using Q = tile::HeldTile<T, C.m, C.d>;
  using K = tile::InRing<0, tile::SharedTile<T, C.kv, C.d>>;
  using V = tile::InRing<1, tile::SharedTile<T, C.kv, C.d>>;
  template <class Tile> using Input = std::conditional_t<C.ragged, tile::RaggedView<Tile>, tile::MatricesView<Tile>>;
  template <class E, int N> using Output =
      std::conditional_t<C.ragged, tile::RaggedOut<E, C.m, N>, tile::MatricesOut<E, C.m, N>>;
  struct Globals : std::conditional_t<C.ragged, Differing, Alike> {
    Input<Q> q;
    Input<K> k;
    Input<V> v;
    Output<T, C.d> o;
    Output<float, 1> lse;  // Natural logarithm of each row's sum of exponentials; not stored if data is null
    Band band;
    float scale_log2 = 0;  // Factor of the scores times log2(e)
    float cap = 0;         // If not 0, a score s is first replaced by cap * tanh(s * scale_over_cap)
    float within_cap = 0;
    int heads_of_keys = 1;  // Number of query heads that share one key and value head
  };
  struct Held {
    Q q;
  };
  struct Stage {
    K k;
    V v;
  };
  template <int N> using Sums = tile::Accumulator<C.m, N, C.consumers, typename tile::SumOf<T>::type>;
  using PerRow = Sums<1>;
  struct State {
    Sums<C.d> o;
    PerRow most = tile::lowest, sum = tile::nought;
    tile::Operands<C.m, C.kv, C.consumers, T> weights;  // Weights of this step's keys, which the next step multiplies
  };

  // Returns the number of keys of the item's sequence. The target calls it once per item.
  TILE_FN static int length(auto& at, const Globals& g) requires(C.ragged) {
    const int sequence = at.matrix() / static_cast<int>(g.q.inner);
    if (g.k.starts != nullptr) return g.k.starts[sequence + 1] - g.k.starts[sequence];
    return g.lengths == nullptr ? 0 : within_reach(g.lengths[sequence]);
  }
  TILE_FN static decltype(auto) band(auto& at, const Globals& g) {
    if constexpr (C.ragged)
      return g.band.of(at.length(), g.moves);
    else
      return (g.band);
  }
  // Returns the row of q to which a line of its tile belongs.
  TILE_FN static int row_of(auto& at, const Globals& g, int line) {
    if constexpr (C.ragged)
      return at.row() + (line - at.row()) / g.q.group;
    else
      return line;
  }
  TILE_FN static int last_row(auto& at, const Globals& g) {
    const int last = row_of(at, g, at.row() + C.m - 1);
    if constexpr (C.ragged)
      if (const int rows = rows_of(g.q, at.matrix()); last >= rows) return rows - 1;
    return last;
  }
  TILE_FN static tile::Steps steps(auto& at, const Globals& g) {
    if constexpr (C.ragged)
      if (at.row() >= rows_of(g.q, at.matrix())) return {0};
    const Band& seen = band(at, g);
    const int first = seen.first(at.row()) / C.kv, end = seen.end(last_row(at, g));
    return {end > first * C.kv ? (end + C.kv - 1) / C.kv - first : 1};
  }
  // Returns the first key of a step.
  TILE_FN static int key(auto& at, const Globals& g, int step) {
    return (band(at, g).first(at.row()) / C.kv + at.steps() - 1 - step) * C.kv;
  }

  TILE_FN static void hold(auto& at, Held& h, const Globals& g) {
    if constexpr (C.ragged)
      at.load(h.q, g.q, at.matrix(), at.row(), rows_of(g.q, at.matrix()));
    else
      at.load(h.q, g.q, at.matrix(), at.row());
  }
  // Keys and values after the end of a sequence are loaded as zeros, even if the memory holds NaN.
  TILE_FN static void load(auto& at, Stage& s, const Globals& g) {
    const int head = at.matrix() / g.heads_of_keys, keys = band(at, g).keys;
    if (!at.is_last()) at.load(s.k, g.k, head, key(at, g, at.step()), keys);
    if (!at.is_first()) at.load(s.v, g.v, head, key(at, g, at.step() - 1), keys);
  }

  template <class At> TILE_FN static void compute(At& at, State& x, const Held& h, const Stage& s, const Globals& g) {
    if constexpr (At::last) {
      at.mma(x.o, x.weights, s.v);
    } else {
      Sums<C.kv> p;
      at.mma(p, h.q, transposed(s.k));
      if constexpr (!At::first) at.mma(x.o, x.weights, s.v);
      at.settle(p);
      PerRow shrink = weigh(at, x, p, g);
      if constexpr (!At::first) {
        at.settle(x.o);
        if (at.any(shrink, [](auto by) { return by != 1; }))
          at.map(
              x.o, [](auto o, auto by) { return o * by; }, shrink);
      }
      at.copy(x.weights, p);
    }
  }

  TILE_FN static auto tanh_of(auto x) {
    constexpr float twice_log2_e = 2.885390081777927F;
    return 1 - 2 * tile::inverse_of(1 + tile::exp2_of(x * twice_log2_e));
  }

  // Replaces scores by weights 2^(scale * (score - row_max)) and returns the factor for earlier sums. Lazy rescaling:
  // `row_max` is updated only if a weight would exceed 2^8, which is rare after the first keys.
  TILE_FN static PerRow weigh(auto& at, State& x, auto& p, const Globals& g) {
    constexpr float behind = 8;
    const float scale = g.scale_log2;
    const int first = key(at, g, at.step());
    if (g.cap != 0) at.map(p, [&](auto s) { return g.cap * tanh_of(s * g.within_cap); });
    const tile::Range own = at.own_rows();
    const Band& seen = band(at, g);
    const int row = row_of(at, g, static_cast<int>(own.begin));
    const int rows = row_of(at, g, static_cast<int>(own.end()) - 1) - row + 1;
    if (seen.cuts(row, rows, first, C.kv)) at.clip(p, [&](int line) { return seen.seen(row_of(at, g, line), first); });
    PerRow now = x.most, shrink = x.most, base;
    at.reduce(now, p, tile::Max{});
    at.map(
        now, [&](auto after, auto before) { return (after - before) * scale > behind ? after : before; }, x.most);
    at.map(
        shrink, [&](auto before, auto after) { return after == before ? 1 : tile::exp2_of((before - after) * scale); },
        now);
    at.map(
        base, [&](auto, auto most) { return most == -INFINITY ? 0 : most * scale; }, now);
    at.map(
        p, [&](auto s, auto most) { return tile::exp2_of(s * scale - most); }, base);
    at.reduce(x.sum, p, tile::Add{}, shrink);
    x.most = now;
    return shrink;
  }

  // The kernel for a quarter of the columns. States are merged in such slices, so that few rows occupy many threads.
  static constexpr AttentionConfig sliced(AttentionConfig c) {
    c.d /= slices;
    return c;
  }
  static constexpr int slices = 4;
  using Slice = Attention<sliced(C), T>;
  TILE_FN static void carry(auto& at, State& x) {
    at.carry(x.o);
    at.carry(x.most);
    at.carry(x.sum);
  }
  // Merges `other`, the state for different keys of the same rows, into x.
  TILE_FN static void merge(auto& at, State& x, State& other, const auto& g) {
    PerRow now = x.most, mine = x.most, theirs = other.most;
    at.map(
        now, [](auto a, auto b) { return a > b ? a : b; }, other.most);
    const auto factor = [&](auto before, auto after) {
      return after == before ? 1 : tile::exp2_of((before - after) * g.scale_log2);
    };
    at.map(mine, factor, now);
    at.map(theirs, factor, now);
    const auto both = [](auto a, auto by, auto b, auto b_by) { return a * by + b * b_by; };
    at.map(x.sum, both, mine, other.sum, theirs);
    at.map(x.o, both, mine, other.o, theirs);
    x.most = now;
  }

  TILE_FN static void store(auto& at, State& x, const auto& g) {
    constexpr float ln_2 = 0.6931471805599453F;
    PerRow lse = x.most, inverse = x.sum;
    at.map(
        lse, [&](auto most, auto sum) { return most * g.scale_log2 * ln_2 + tile::log_of(sum); }, x.sum);
    at.store(g.lse, lse);
    at.map(inverse, [](auto sum) { return 1 / sum; });
    at.map(
        x.o, [](auto o, auto by) { return o * by; }, inverse);
    at.store(g.o, x.o);
  }
};

// Sets the members of Globals that are not operand views.
void set_numbers(auto& g, const AttentionProblem& p) {
  constexpr double log2_e = 1.4426950408889634;
  g.band = {static_cast<int>(p.low), static_cast<int>(p.high), static_cast<int>(p.keys), p.walks ? 1 : 0};
  g.scale_log2 = static_cast<float>((p.cap > 0 ? 1 : p.scale) * log2_e);
  g.cap = static_cast<float>(p.cap);
  g.within_cap = p.cap > 0 ? static_cast<float>(p.scale / p.cap) : 0;
  g.heads_of_keys = static_cast<int>(p.heads / p.key_heads);
}
// Sets the extra arguments of a kernel for ragged sequences.
void set_lengths(auto& g, const AttentionProblem& p, const int* lengths) {
  if (!p.lengths) return;
  g.lengths = lengths;
  g.moves = moves_of(p);
}

}  // namespace ridge::ops
