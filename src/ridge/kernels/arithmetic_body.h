// The texts of arithmetic.h, with the functions of the kernels themselves. Included by one file for each instruction
// set.
#pragma once

#include "ridge/kernels/arithmetic.h"
#include "ridge/kernels/vector_math.h"
#include "ridge/kernels/vector_math_storage.h"

namespace ridge::kernels {
namespace {

// Four pairs of vectors at one place: independent, so that they hide each other's latency.
template <class V, class T> class Spot {
 public:
  static constexpr std::int64_t pair = 2 * V::lanes, pairs = 4, group = pairs * pair;
  static constexpr bool halves = V::has_halves && std::is_same_v<T, Bf16>;

  Spot() {
    for (std::int64_t i = 0; i < group; i += V::lanes) {
      lit<V>(0.5f).store(x_ + i), lit<V>(0.75f).store(r_ + i);
      lit<V>(0.5f).store(between_ + i);
    }
  }

  // y = f(x) or f(x, r)
  template <class F> void map(std::int64_t n, F f) {
    again(
        n, [&](std::int64_t i) __attribute__((always_inline)) {
          const Two<V> x = load_two<V, halves>(x_ + i);
          if constexpr (std::is_invocable_v<F, V, V>) {
            const Two<V> r = load_two<V, halves>(r_ + i);
            store_two<V, halves>({f(x.a, r.a), f(x.b, r.b)}, y_ + i, false);
          } else {
            store_two<V, halves>({f(x.a), f(x.b)}, y_ + i, false);
          }
        });
  }

  void rmsnorm(std::int64_t n) {
    const V scale = lit<V>(0.9f);
    V a = lit<V>(0), b = a, c = a, d = a;
    again(
        n, [&](std::int64_t i) __attribute__((always_inline)) {
          const Two<V> x = load_two<V, halves>(x_ + i);
          V &one = i / pair % 2 == 0 ? a : c, &other = i / pair % 2 == 0 ? b : d;
          one = one + x.a * x.a, other = other + x.b * x.b;
        });
    again(
        n, [&](std::int64_t i) __attribute__((always_inline)) {
          const Two<V> x = load_two<V, halves>(x_ + i), w = load_two<V, halves>(r_ + i);
          store_two<V, halves>({x.a * scale * w.a, x.b * scale * w.b}, y_ + i, false);
        });
    keep(a + b + c + d);
  }

  void softmax(std::int64_t n) {
    const V top = lit<V>(1), scale = lit<V>(0.9f);
    V a = lit<V>(0), b = a, c = a, d = a, sum = a, more = a;
    again(
        n, [&](std::int64_t i) __attribute__((always_inline)) {
          const Two<V> x = load_two<V, halves>(x_ + i);
          V &one = i / pair % 2 == 0 ? a : c, &other = i / pair % 2 == 0 ? b : d;
          one = larger(x.a, one), other = larger(x.b, other);
        });
    again(
        n, [&](std::int64_t i) __attribute__((always_inline)) {
          const Two<V> x = load_two<V, halves>(x_ + i);
          const V p = power(x.a - top), q = power(x.b - top);
          p.store(between_ + i), q.store(between_ + i + V::lanes);
          sum = sum + p, more = more + q;
        });
    again(
        n, [&](std::int64_t i) __attribute__((always_inline)) {
          const Two<V> e = load_two<V, false>(between_ + i);
          store_two<V, halves>({e.a * scale, e.b * scale}, y_ + i, false);
        });
    keep(a + b + c + d + sum + more);
  }

 private:
  // The compiler must take what lies in memory for other numbers each time.
  template <class F> [[gnu::always_inline]] void again(std::int64_t n, F part) {
    for (std::int64_t i = 0; i < n; i += group) {
      asm volatile("" : : "r"(this) : "memory");
#pragma GCC unroll 4
      for (std::int64_t k = 0; k < pairs; ++k) part(k * pair);
    }
  }
  static V power(V x) {
    if constexpr (sizeof(T) == 2)
      return exp_below_0_short(x);
    else
      return exp_below_0(x);
  }
  void keep(V x) {
    x.store(between_);
    asm volatile("" : : "r"(this) : "memory");
  }

  alignas(64) T x_[group];
  alignas(64) T r_[group];
  alignas(64) T y_[group];
  alignas(64) float between_[group];
};

template <class V, class T> void run_arithmetic(const ArithmeticRun& run) {
  Spot<V, T> spot;
  const V scale = lit<V>(1.3f), shift = lit<V>(0.2f);
  switch (run.text) {
    case ArithmeticText::affine: return spot.map(run.n, [&](V x, V r) { return relu(scale * x + shift) * r; });
    case ArithmeticText::gelu: return spot.map(run.n, [&](V x, V r) { return gelu(scale * x + shift) * r; });
    case ArithmeticText::cosines: return spot.map(run.n, [](V x) { return cos(cos(x)); });
    case ArithmeticText::rmsnorm: return spot.rmsnorm(run.n);
    case ArithmeticText::softmax: return spot.softmax(run.n);
  }
}

inline void run_arithmetic(const ArithmeticRun& run) {
  if (run.dtype == DType::bf16) return run_arithmetic<FloatLanes, Bf16>(run);
  if (run.dtype == DType::f16) return run_arithmetic<FloatLanes, F16>(run);
  run_arithmetic<FloatLanes, float>(run);
}

}  // namespace
}  // namespace ridge::kernels
