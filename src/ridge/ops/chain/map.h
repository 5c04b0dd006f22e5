// Compiled chains: y[i] = f(x[i], …) where the compiler knows f, which is applied in registers to vectors of floats on
// their way from memory to memory.
//
//   map(n, [](auto x, auto r) { return relu(1.3f * x + 0.2f) * r; }, threads, y, x, r);
//
// f takes and returns one vector (vector_math_lanes.h) for each array and may use all of vector_math.h; a float meets a
// vector as one number for all its lanes. Arrays hold float, Bf16 or F16, each its own; they may be unaligned, must not
// overlap y, and what f sees are floats. Every element is computed alone, so threads change no bit. The vectors are
// those of the instruction set that the including file is compiled for: one that runs elsewhere too is compiled once
// for each behind a choice at run time, as map_menu.h does.
#pragma once

#include <tuple>

#include "ridge/base/cores.h"
#include "ridge/ops/function/vector_math.h"
#include "ridge/ops/function/vector_math_storage.h"
#include "ridge/pool/isa.h"
#include "ridge/pool/pool.h"

namespace ridge::ops {
namespace {

template <class V>
concept Lanes = requires(float x) {
  V::all(x).v;
  V::lanes;
};
template <Lanes V> V operator+(V a, float b) { return a + V::all(b); }
template <Lanes V> V operator+(float a, V b) { return V::all(a) + b; }
template <Lanes V> V operator-(V a, float b) { return a - V::all(b); }
template <Lanes V> V operator-(float a, V b) { return V::all(a) - b; }
template <Lanes V> V operator*(V a, float b) { return a * V::all(b); }
template <Lanes V> V operator*(float a, V b) { return V::all(a) * b; }
template <Lanes V> V operator/(V a, float b) { return a / V::all(b); }
template <Lanes V> V operator/(float a, V b) { return V::all(a) / b; }

// Asks for lines that come from memory where the core needs it (prefetches_far); elsewhere for those of 16-bit elements
// a KiB ahead, since a core that widens and rounds them sees too few at once (Zen 3: bf16 0.77 -> 0.85 of a stream's
// speed, f16 0.83 -> 0.88).
struct NextL1 {
  static constexpr int bytes = 1024, locality = 3;
};
template <int elements, bool far, class T> [[gnu::always_inline]] inline void ask_for(const T* from) {
  if constexpr (far)
    prefetch_line<PrefetchFor<T>, elements>(from);
  else if constexpr (sizeof(T) == 2)
    prefetch_line<NextL1, elements>(from);
}

// This thread's share. Two pairs of vectors are read from every array before the first is written: reads and writes
// that come in such groups keep memory busier than single ones. `stream`: past the caches.
template <class V, class F, class Y, class... X> void map_part(std::int64_t n, bool stream, F f, Y* y, const X*... x) {
  constexpr bool halves = V::has_halves && (std::is_same_v<Y, Bf16> && ... && std::is_same_v<X, Bf16>);
  constexpr int pair = 2 * V::lanes;
  const std::uintptr_t past = reinterpret_cast<std::uintptr_t>(y) % 64;
  stream = stream && past % sizeof(Y) == 0;
  const auto some = [&](std::int64_t i, std::int64_t end) {
    for (; i < end; i += V::lanes) {
      const int count = static_cast<int>(std::min<std::int64_t>(V::lanes, end - i));
      store_some(V(f(load_some<V>(x + i, count)...)), y + i, count);
    }
  };
  std::int64_t i = stream ? std::min(n, static_cast<std::int64_t>((64 - past) % 64 / sizeof(Y))) : 0;
  some(0, i);
  const auto load = [&](std::int64_t at) __attribute__((always_inline)) {
    return std::tuple{load_two<V, halves>(x + at)...};
  };
  const auto apply = [&](const auto& of) __attribute__((always_inline)) {
    return std::apply([&](const auto&... two) { return Two<V>{f(two.a...), f(two.b...)}; }, of);
  };
  const auto run = [&](auto past_caches, auto far) __attribute__((always_inline)) {
    for (; i + 2 * pair <= n; i += 2 * pair) {
      if constexpr (past_caches) (ask_for<2 * pair, far>(x + i), ...);
      const auto first = load(i), second = load(i + pair);
      const Two<V> a = apply(first), b = apply(second);
      store_two<V, halves>(a, y + i, past_caches);
      store_two<V, halves>(b, y + i + pair, past_caches);
    }
  };
  if (!stream)
    run(std::false_type{}, std::false_type{});
  else if (tile::cpu::prefetches_far())
    run(std::true_type{}, std::true_type{});
  else
    run(std::true_type{}, std::false_type{});
  some(i, n);
  if (stream) V::fence();
}

// n elements on `threads` threads (0: every core that the process may use).
template <class F, class Y, class... X> void map(std::int64_t n, F f, int threads, Y* y, const X*... x) {
  constexpr std::int64_t worth_a_thread = 1 << 14, line = 64;
  const auto bytes = static_cast<double>(n) * static_cast<double>((sizeof(Y) + ... + sizeof(X)));
  const bool stream = bytes > static_cast<double>(tile::cpu::caches().l3);
  if (threads <= 0) threads = usable_cores();
  const int workers = static_cast<int>(std::min<std::int64_t>(threads, std::max<std::int64_t>(n / worth_a_thread, 1)));
  tile::cpu::run(workers, [&](int worker) {
    const tile::cpu::Slice part = tile::cpu::slice(n, workers, worker, line);
    map_part<FloatLanes>(part.end - part.begin, stream, f, y + part.begin, (x + part.begin)...);
  });
}

}  // namespace
}  // namespace ridge::ops
