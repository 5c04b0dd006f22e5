// The loops of arithmetic.h, built from the kernels' own functions. Included by one file for each instruction set.
#pragma once

#include "ridge/ops/rows/arithmetic.h"
#include "ridge/ops/rows/isa_kernels.h"
#include "ridge/tile/cpu/rows.h"

namespace ridge::ops {
namespace {

struct AffineRelu {
  template <class V> V operator()(V x, V r) const { return relu(broadcast<V>(1.3f) * x + broadcast<V>(0.2f)) * r; }
};
struct AffineGelu {
  template <class V> V operator()(V x, V r) const { return gelu(broadcast<V>(1.3f) * x + broadcast<V>(0.2f)) * r; }
};
// y = F(x, r)
template <class T, class F> struct TwoInputChain {
  static constexpr int passes = 1;
  static constexpr bool is_compute_heavy = false;
  using Stored = tile::RowFormats<T>;
  struct Globals {
    tile::RowsView<T> x;
    tile::RowsView<T, 1> r;
    tile::RowsOut<T> y;
  };

  TILE_FN static void pass(auto& at, const Globals& g) {
    auto e = at.load(g.x);
    at.map(e, F{}, at.load(g.r));
    at.store(g.y, e);
  }
};
template <class V> void run_chain(const CompiledChain& run) {
  with_typed_pointer(run.dtype, run.y, [&](auto* y) {
    using T = std::decay_t<decltype(*y)>;
    const bool streams = 3 * run.n * static_cast<std::int64_t>(sizeof(T)) > pool::cache_sizes().l3;
    const tile::cpu::ThreadRows part{0, 1, run.n, nullptr, streams, !streams};
    const auto run_with = [&](auto f) {
      tile::cpu::run_rows<V, TwoInputChain<T, decltype(f)>>(
          {{static_cast<const T*>(run.x)}, {static_cast<const T*>(run.r)}, {y}}, part);
    };
    run.kernel == RoofKernel::gelu ? run_with(AffineGelu{}) : run_with(AffineRelu{});
  });
}

// Runs the loops on four pairs of vectors, which stay in the L1. The pairs are independent, to hide latency.
template <class V, class T> class L1ResidentLoops {
 public:
  static constexpr int pairs = 4;
  static constexpr std::int64_t pair_elements = 2 * V::lanes, group_elements = pairs * pair_elements;
  static constexpr bool halves = V::has_even_odd && std::is_same_v<T, Bf16>;

  L1ResidentLoops() {
    for (std::int64_t i = 0; i < group_elements; i += V::lanes) {
      broadcast<V>(0.5f).store(x_ + i);
      broadcast<V>(0.75f).store(r_ + i);
      broadcast<V>(0.5f).store(exponentials_ + i);
    }
  }

  // y = f(x) or f(x, r)
  template <class F> void map(std::int64_t n, F f) {
    for_each_pair(
        n, [&](const PairPointers& at, [[maybe_unused]] int k) __attribute__((always_inline)) {
          const VectorPair<V> x = load_pair<V, halves>(at.x);
          if constexpr (std::is_invocable_v<F, V, V>) {
            const VectorPair<V> r = load_pair<V, halves>(at.r);
            store_pair<V, halves>({f(x.a, r.a), f(x.b, r.b)}, at.y, false);
          } else {
            store_pair<V, halves>({f(x.a), f(x.b)}, at.y, false);
          }
        });
  }

  void rmsnorm(std::int64_t n, std::int64_t columns) {
    V part[2 * pairs];
    for (V& each : part) each = broadcast<V>(0);
    for_each_pair(
        n, [&](const PairPointers& at, [[maybe_unused]] int k) __attribute__((always_inline)) {
          const VectorPair<V> x = load_pair<V, halves>(at.x);
          part[2 * k] = fma(x.a, x.a, part[2 * k]);
          part[2 * k + 1] = fma(x.b, x.b, part[2 * k + 1]);
        });
    const bool shares_weight =
        tile::cpu::rows_per_batch(columns) > 1;  // An iteration processes two rows, which share a load of the weight.
    const int vectors_per_row = shares_weight ? 2 : 4;
    for (std::int64_t row = 0; row < n / columns; ++row) {
      const V all =
          combine_vectors(part + (shares_weight ? row % 2 * 4 : 0), vectors_per_row, [](V a, V b) { return a + b; });
      do_not_optimize(1 / std::sqrt(sum_lanes(all) * 0.5f + 1e-5f));
    }
    const V scale = broadcast<V>(0.9f), second_scale = broadcast<V>(0.8f);
    VectorPair<V> w{scale, scale};
    const auto scale_vectors = [&](const PairPointers& at, bool first) __attribute__((always_inline)) {
      const VectorPair<V> x = load_pair<V, halves>(at.x);
      if (first) w = load_pair<V, halves>(at.r);
      const V s = first ? scale : second_scale;
      store_pair<V, halves>({x.a * s * w.a, x.b * s * w.b}, at.y, false);
    };
    if (shares_weight)
      for_each_pair(
          n, [&](const PairPointers& at, int k) __attribute__((always_inline)) { scale_vectors(at, k % 2 == 0); });
    else
      for_each_pair(
          n, [&](const PairPointers& at, int) __attribute__((always_inline)) { scale_vectors(at, true); });
  }

  void softmax(std::int64_t n, std::int64_t columns) {
    const V maximum = broadcast<V>(1), scale = broadcast<V>(0.9f);
    V part[4], sums[2] = {broadcast<V>(0), broadcast<V>(0)};
    for (V& each : part) each = broadcast<V>(0);
    for_each_pair(
        n, [&](const PairPointers& at, [[maybe_unused]] int k) __attribute__((always_inline)) {
          const VectorPair<V> x = load_pair<V, halves>(at.x);
          V &a = part[k % 2 * 2], &b = part[k % 2 * 2 + 1];
          a = lane_max(x.a, a);
          b = lane_max(x.b, b);
        });
    for_each_pair(
        n, [&](const PairPointers& at, [[maybe_unused]] int k) __attribute__((always_inline)) {
          const VectorPair<V> x = load_pair<V, halves>(at.x);
          const V p = exponential(x.a - maximum), q = exponential(x.b - maximum);
          p.store(at.exponentials);
          q.store(at.exponentials + V::lanes);
          sums[0] = sums[0] + p;
          sums[1] = sums[1] + q;
        });
    for (std::int64_t row = 0; row < n / columns; ++row) {
      do_not_optimize(tile::cpu::max_lane(combine_vectors(part, 2, [](V a, V b) { return lane_max(b, a); })));
      do_not_optimize(1 / sum_lanes(sums[0] + sums[1]));
    }
    for_each_pair(
        n, [&](const PairPointers& at, [[maybe_unused]] int k) __attribute__((always_inline)) {
          const VectorPair<V> e = load_pair<V, false>(at.exponentials);
          store_pair<V, halves>({e.a * scale, e.b * scale}, at.y, false);
        });
  }

 private:
  struct PairPointers {  // Addresses of one pair of vectors.
    const T *x, *r;
    T* y;
    float* exponentials;
    PairPointers at(std::int64_t i) const { return {x + i, r + i, y + i, exponentials + i}; }
  };
  // The asm statement hides the addresses from the compiler for each group, so it cannot reuse loaded values. (A memory
  // clobber would also force the sums to memory, which lowers rmsnorm's roof to 0.7 of its value.)
  template <class F> [[gnu::always_inline]] void for_each_pair(std::int64_t n, F update) {
    PairPointers lines{x_, r_, y_, exponentials_};
    for (std::int64_t i = 0; i < n; i += group_elements) {
      asm volatile("" : "+r"(lines.x), "+r"(lines.r), "+r"(lines.y), "+r"(lines.exponentials));
#pragma GCC unroll 4
      for (int k = 0; k < pairs; ++k) update(lines.at(k * pair_elements), k);
    }
  }
  static V exponential(V x) {
    if constexpr (sizeof(T) == 2)
      return exp_times_2_64_16bit(x);
    else
      return exp_times_2_64(x);
  }
  template <class F> static V combine_vectors(const V* part, int vectors_per_row, F combine) {
    V all = combine(part[0], part[1]);
    for (int k = 1; k < vectors_per_row; ++k) all = combine(all, combine(part[2 * k], part[2 * k + 1]));
    return all;
  }
  template <class X> static void do_not_optimize(X x) { asm volatile("" : : "m"(x)); }

  alignas(64) T x_[group_elements];
  alignas(64) T r_[group_elements];
  alignas(64) T y_[group_elements];
  alignas(64) float exponentials_[group_elements];
};

template <class V, class T> void run_cached_loop(const RoofLoopCall& run) {
  L1ResidentLoops<V, T> vectors;
  switch (run.kernel) {
    case RoofKernel::affine: return vectors.map(run.n, AffineRelu{});
    case RoofKernel::gelu: return vectors.map(run.n, AffineGelu{});
    case RoofKernel::cosines: return vectors.map(run.n, [](V x) { return cos(cos(x)); });
    case RoofKernel::rmsnorm: return vectors.rmsnorm(run.n, run.columns);
    case RoofKernel::softmax: return vectors.softmax(run.n, run.columns);
  }
}

inline void run_cached_loop(const RoofLoopCall& run) {
  if (run.dtype == DType::bf16) return run_cached_loop<FloatLanes, Bf16>(run);
  if (run.dtype == DType::f16) return run_cached_loop<FloatLanes, F16>(run);
  run_cached_loop<FloatLanes, float>(run);
}

}  // namespace
}  // namespace ridge::ops
