// What the loops over a row are made of: steps that read a row and join what they find, and the loop that does one
// row's writing and others' reading at once. Internal to rows_body.h.
#pragma once

#include <utility>

#include "ridge/ops/function/vector_math.h"
#include "ridge/ops/function/vector_math_storage.h"

namespace ridge::ops {
namespace {

template <class V> float largest(V a) {
  alignas(64) float lanes[V::lanes];
  a.store(lanes);
  float most = lanes[0];
  for (const float each : lanes) most = each > most ? each : most;
  return most;
}

// What is joined of a row, in as many vectors as hide the latency of joining; what is no whole pair comes one vector at
// a time.
template <class V, class X, bool halves, class Kind> struct Reduction {
  static constexpr int pairs = Kind::pairs;
  const X* row;
  V start;
  V part[2 * pairs];
  Reduction(const X* x, V neutral) : Reduction(x, neutral, std::make_index_sequence<2 * pairs>()) {}
  template <std::size_t... i>  // no loop: g++ would make it a memset, for which the sums would have to lie in memory
  Reduction(const X* x, V neutral, std::index_sequence<i...>)
      : row(x), start(neutral), part{(static_cast<void>(i), neutral)...} {}

  [[gnu::always_inline]] void two(std::int64_t i, int k) {
    const Two<V> x = load_two<V, halves>(row + i);
    part[2 * k] = Kind::join(part[2 * k], x.a);
    part[2 * k + 1] = Kind::join(part[2 * k + 1], x.b);
  }
  void some(std::int64_t i, int count) {
    alignas(64) float rest[V::lanes], values[V::lanes];
    start.store(rest);
    load_some<V>(row + i, count).store(values);
    std::memcpy(rest, values, static_cast<std::size_t>(count) * sizeof(float));
    part[0] = Kind::join(part[0], V::load(rest));
  }
  V result() const {
    V all = Kind::both(part[0], part[1]);
    for (int k = 1; k < pairs; ++k) all = Kind::both(all, Kind::both(part[2 * k], part[2 * k + 1]));
    return all;
  }
};
// An fma takes four cycles and two begin in each: eight vectors of sums keep them busy, those of one row or of two.
template <int of_a_row> struct SumOfSquares {
  static constexpr int pairs = of_a_row;
  template <class V> static V join(V a, V x) { return fma(x, x, a); }
  template <class V> static V both(V a, V b) { return a + b; }
};
struct Largest {  // of a NaN and another, the other: it shows in the sum of powers
  static constexpr int pairs = 2;
  template <class V> static V join(V a, V x) { return larger(x, a); }
  template <class V> static V both(V a, V b) { return larger(b, a); }
};

template <int of_a_turn = 2> struct Nothing {
  static constexpr int pairs = of_a_turn;
  static void two(std::int64_t, int = 0) {}
  static void some(std::int64_t, int) {}
};
// A reduction of a row that comes from memory asks for its lines, and for those of the row behind it.
template <class Row, class Prefetch = SoonL1> struct FromMemory : Row {
  using Row::Row;
  [[gnu::always_inline]] void two(std::int64_t i, int k) {
    constexpr int line = 64, elements = 2 * sizeof(Row::start) / sizeof(float);
    constexpr int every = line / static_cast<int>(elements * sizeof(*Row::row));
    if (every < 2 || k % every == 0) prefetch_line<Prefetch, elements>(Row::row + i);
    Row::two(i, k);
  }
};
template <class V, class Step> void rest(Step& step, std::int64_t from, std::int64_t n) {
  for (; from < n; from += V::lanes) step.some(from, static_cast<int>(std::min<std::int64_t>(V::lanes, n - from)));
}

template <class V, class Step> [[gnu::noinline]] Step rest_of(Step step, std::int64_t from, std::int64_t n) {
  rest<V>(step, from, n);
  return step;
}

// Over 0 … n-1: `write` writes one row, `fetch` reads one that comes from memory and `work` one from a cache. Whole
// pairs are written from `lead` on, where the output meets a line, so the writer is ahead of the readers, who may
// overwrite what they read. What is no whole pair is left to a copy of the step: one that nobody has the address of
// stays in registers. In memory, it would be copied in one piece where it was written in several, and such a load waits
// for every store before it, those past the caches too.
template <class V, class Write, class Fetch, class Work>
[[gnu::always_inline]] inline void over_row(std::int64_t n, std::int64_t lead, const Write& write, Fetch&& fetch,
                                            Work&& work) {
  constexpr int pairs = std::max(std::decay_t<Fetch>::pairs, std::decay_t<Work>::pairs);  // in one turn of the loop
  constexpr std::int64_t pair = 2 * V::lanes, turn = pairs * pair;
  if (lead > 0) rest_of<V>(write, 0, lead);
  std::int64_t i = 0;
  for (; lead + i + turn <= n; i += turn) {
#pragma GCC unroll 4
    for (int k = 0; k < pairs; ++k) fetch.two(i + k * pair, k);
#pragma GCC unroll 4
    for (int k = 0; k < pairs; ++k) write.two(lead + i + k * pair);
#pragma GCC unroll 4
    for (int k = 0; k < pairs; ++k) work.two(i + k * pair, k);
  }
  std::int64_t at = lead + i;
  for (; at + pair <= n; at += pair) write.two(at);
  if (at < n) rest_of<V>(write, at, n);
  for (; i + turn <= n; i += turn)
#pragma GCC unroll 4
    for (int k = 0; k < pairs; ++k) {
      fetch.two(i + k * pair, k);
      work.two(i + k * pair, k);
    }
  for (; i + pair <= n; i += pair) {
    fetch.two(i, 0);
    work.two(i, 0);
  }
  if (i < n) {
    fetch = rest_of<V>(fetch, i, n);
    work = rest_of<V>(work, i, n);
  }
}

}  // namespace
}  // namespace ridge::ops
