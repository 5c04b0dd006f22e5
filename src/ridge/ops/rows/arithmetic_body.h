// The loops of arithmetic.h, built from the kernels' own functions. Included by one file for each instruction set.
#pragma once

#include "ridge/ops/rows/arithmetic.h"
#include "ridge/ops/rows/part.h"
#include "ridge/tile/cpu/rows.h"

namespace ridge::ops {
namespace {

struct Affine {
  template <class V> V operator()(V x, V r) const { return relu(lit<V>(1.3f) * x + lit<V>(0.2f)) * r; }
};
struct Bent {
  template <class V> V operator()(V x, V r) const { return gelu(lit<V>(1.3f) * x + lit<V>(0.2f)) * r; }
};
// y = F(x, r)
template <class T, class F> struct Chain {
  static constexpr int passes = 1;
  static constexpr bool computes = false;
  using Stored = tile::Formats<T>;
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
  with_type(run.dtype, run.y, [&](auto* y) {
    using T = std::decay_t<decltype(*y)>;
    const bool stream = 3 * run.n * static_cast<std::int64_t>(sizeof(T)) > tile::cpu::caches().l3;
    const tile::cpu::RowsPart part{0, 1, run.n, nullptr, stream, !stream};
    const auto of = [&](auto f) {
      tile::cpu::run_rows<V, Chain<T, decltype(f)>>(
          {{static_cast<const T*>(run.x)}, {static_cast<const T*>(run.r)}, {y}}, part);
    };
    run.text == ArithmeticText::gelu ? of(Bent{}) : of(Affine{});
  });
}

// Four pairs of vectors at fixed addresses; they are independent, so they hide each other's latency.
template <class V, class T> class Spot {
 public:
  static constexpr int pairs = 4;
  static constexpr std::int64_t pair = 2 * V::lanes, group = pairs * pair;
  static constexpr bool halves = V::has_halves && std::is_same_v<T, Bf16>;

  Spot() {
    for (std::int64_t i = 0; i < group; i += V::lanes) {
      lit<V>(0.5f).store(x_ + i);
      lit<V>(0.75f).store(r_ + i);
      lit<V>(0.5f).store(between_ + i);
    }
  }

  // y = f(x) or f(x, r)
  template <class F> void map(std::int64_t n, F f) {
    again(
        n, [&](const Lines& at, [[maybe_unused]] int k) __attribute__((always_inline)) {
          const Two<V> x = load_two<V, halves>(at.x);
          if constexpr (std::is_invocable_v<F, V, V>) {
            const Two<V> r = load_two<V, halves>(at.r);
            store_two<V, halves>({f(x.a, r.a), f(x.b, r.b)}, at.y, false);
          } else {
            store_two<V, halves>({f(x.a), f(x.b)}, at.y, false);
          }
        });
  }

  void rmsnorm(std::int64_t n, std::int64_t columns) {
    V part[2 * pairs];
    for (V& each : part) each = lit<V>(0);
    again(
        n, [&](const Lines& at, [[maybe_unused]] int k) __attribute__((always_inline)) {
          const Two<V> x = load_two<V, halves>(at.x);
          part[2 * k] = fma(x.a, x.a, part[2 * k]);
          part[2 * k + 1] = fma(x.b, x.b, part[2 * k + 1]);
        });
    const bool shared =
        tile::cpu::rows_together(columns) > 1;  // An iteration processes two rows, which share a load of the weight.
    const int of_a_row = shared ? 2 : 4;
    for (std::int64_t row = 0; row < n / columns; ++row) {
      const V all = joined(part + (shared ? row % 2 * 4 : 0), of_a_row, [](V a, V b) { return a + b; });
      keep(1 / std::sqrt(sum(all) * 0.5f + 1e-5f));
    }
    const V scale = lit<V>(0.9f), other = lit<V>(0.8f);
    Two<V> w{scale, scale};
    const auto weigh = [&](const Lines& at, bool first) __attribute__((always_inline)) {
      const Two<V> x = load_two<V, halves>(at.x);
      if (first) w = load_two<V, halves>(at.r);
      const V s = first ? scale : other;
      store_two<V, halves>({x.a * s * w.a, x.b * s * w.b}, at.y, false);
    };
    if (shared)
      again(
          n, [&](const Lines& at, int k) __attribute__((always_inline)) { weigh(at, k % 2 == 0); });
    else
      again(
          n, [&](const Lines& at, int) __attribute__((always_inline)) { weigh(at, true); });
  }

  void softmax(std::int64_t n, std::int64_t columns) {
    const V top = lit<V>(1), scale = lit<V>(0.9f);
    V part[4], sums[2] = {lit<V>(0), lit<V>(0)};
    for (V& each : part) each = lit<V>(0);
    again(
        n, [&](const Lines& at, [[maybe_unused]] int k) __attribute__((always_inline)) {
          const Two<V> x = load_two<V, halves>(at.x);
          V &a = part[k % 2 * 2], &b = part[k % 2 * 2 + 1];
          a = larger(x.a, a);
          b = larger(x.b, b);
        });
    again(
        n, [&](const Lines& at, [[maybe_unused]] int k) __attribute__((always_inline)) {
          const Two<V> x = load_two<V, halves>(at.x);
          const V p = power(x.a - top), q = power(x.b - top);
          p.store(at.between);
          q.store(at.between + V::lanes);
          sums[0] = sums[0] + p;
          sums[1] = sums[1] + q;
        });
    for (std::int64_t row = 0; row < n / columns; ++row) {
      keep(tile::cpu::largest(joined(part, 2, [](V a, V b) { return larger(b, a); })));
      keep(1 / sum(sums[0] + sums[1]));
    }
    again(
        n, [&](const Lines& at, [[maybe_unused]] int k) __attribute__((always_inline)) {
          const Two<V> e = load_two<V, false>(at.between);
          store_two<V, halves>({e.a * scale, e.b * scale}, at.y, false);
        });
  }

 private:
  struct Lines {  // Addresses of one pair of vectors.
    const T *x, *r;
    T* y;
    float* between;
    Lines at(std::int64_t i) const { return {x + i, r + i, y + i, between + i}; }
  };
  // The asm statement hides the addresses from the compiler for each group, so it cannot reuse loaded values. (A memory
  // clobber also forced the sums to memory: rmsnorm's roof came out at 0.7 of its value.)
  template <class F> [[gnu::always_inline]] void again(std::int64_t n, F part) {
    Lines lines{x_, r_, y_, between_};
    for (std::int64_t i = 0; i < n; i += group) {
      asm volatile("" : "+r"(lines.x), "+r"(lines.r), "+r"(lines.y), "+r"(lines.between));
#pragma GCC unroll 4
      for (int k = 0; k < pairs; ++k) part(lines.at(k * pair), k);
    }
  }
  static V power(V x) {
    if constexpr (sizeof(T) == 2)
      return raised_power_short(x);
    else
      return raised_power(x);
  }
  template <class F> static V joined(const V* part, int of_a_row, F both) {
    V all = both(part[0], part[1]);
    for (int k = 1; k < of_a_row; ++k) all = both(all, both(part[2 * k], part[2 * k + 1]));
    return all;
  }
  template <class X> static void keep(X x) { asm volatile("" : : "m"(x)); }

  alignas(64) T x_[group];
  alignas(64) T r_[group];
  alignas(64) T y_[group];
  alignas(64) float between_[group];
};

template <class V, class T> void run_arithmetic(const ArithmeticRun& run) {
  Spot<V, T> spot;
  switch (run.text) {
    case ArithmeticText::affine: return spot.map(run.n, Affine{});
    case ArithmeticText::gelu: return spot.map(run.n, Bent{});
    case ArithmeticText::cosines: return spot.map(run.n, [](V x) { return cos(cos(x)); });
    case ArithmeticText::rmsnorm: return spot.rmsnorm(run.n, run.columns);
    case ArithmeticText::softmax: return spot.softmax(run.n, run.columns);
  }
}

inline void run_arithmetic(const ArithmeticRun& run) {
  if (run.dtype == DType::bf16) return run_arithmetic<FloatLanes, Bf16>(run);
  if (run.dtype == DType::f16) return run_arithmetic<FloatLanes, F16>(run);
  run_arithmetic<FloatLanes, float>(run);
}

}  // namespace
}  // namespace ridge::ops
