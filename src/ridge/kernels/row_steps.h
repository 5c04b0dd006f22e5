// What the loops over a row are made of: steps that read a row and join what they find, and the loop that does one
// row's writing and others' reading at once. Internal to rows_body.h.
#pragma once

#include "ridge/kernels/vector_math.h"
#include "ridge/kernels/vector_math_storage.h"

namespace ridge::kernels {
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
  Reduction(const X* x, V neutral) : row(x), start(neutral) {
    for (V& each : part) each = neutral;
  }

  [[gnu::always_inline]] void two(std::int64_t i, int k) {
    const Two<V> x = load_two<V, halves>(row + i);
    part[2 * k] = Kind::join(part[2 * k], x.a), part[2 * k + 1] = Kind::join(part[2 * k + 1], x.b);
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

struct Nothing {
  static constexpr int pairs = 1;
  static void two(std::int64_t, int = 0) {}
  static void some(std::int64_t, int) {}
};
// A reduction of a row that comes from memory asks for its lines, and for those of the row behind it, 4 KiB ahead: a
// core that also computes exponentials or rounds to 16 bits sees too few loads at once to keep the memory busy.
template <class Row> struct FromMemory : Row {
  [[gnu::always_inline]] void two(std::int64_t i, int k) {
    constexpr int line = 64, bytes = 2 * sizeof(Row::start) / sizeof(float) * sizeof(*Row::row), every = line / bytes;
    const char* const ahead = reinterpret_cast<const char*>(Row::row + i) + 4096;
    if (every < 2 || k % every == 0)
#pragma GCC unroll 2
      for (int b = 0; b < bytes; b += line) __builtin_prefetch(ahead + b);
    Row::two(i, k);
  }
};
template <class Fetch, class Work>
struct Reader {  // `fetch` of a row that comes from memory, `work` on one from a cache
  static constexpr int pairs = std::max({2, Fetch::pairs, Work::pairs});  // in one turn of the loop
  Fetch fetch;
  Work work;
  [[gnu::always_inline]] void two(std::int64_t i, int k) { fetch.two(i, k), work.two(i, k); }
  void some(std::int64_t i, int count) { fetch.some(i, count), work.some(i, count); }
};

template <class V, class Step> void rest(Step& step, std::int64_t from, std::int64_t n) {
  for (; from < n; from += V::lanes) step.some(from, static_cast<int>(std::min<std::int64_t>(V::lanes, n - from)));
}

// Over 0 … n-1: `write` writes one row, `read` works on others; returned as it is then. Whole pairs are written from
// `lead` on, where the output meets a line, so the writer is ahead of the reader, who may overwrite what it read.
template <class V, class Write, class Read>
[[gnu::always_inline]] inline Read over_row(std::int64_t n, std::int64_t lead, const Write& write, const Read& start) {
  constexpr std::int64_t pair = 2 * V::lanes, turn = Read::pairs * pair;
  const Write edge = write, body = write;  // copies, whose addresses nobody has, stay in registers
  Read read = start;
  rest<V>(edge, 0, lead);
  std::int64_t i = 0;
  for (; lead + i + turn <= n; i += turn) {
#pragma GCC unroll 4
    for (int k = 0; k < Read::pairs; ++k) read.fetch.two(i + k * pair, k);
#pragma GCC unroll 4
    for (int k = 0; k < Read::pairs; ++k) body.two(lead + i + k * pair);
#pragma GCC unroll 4
    for (int k = 0; k < Read::pairs; ++k) read.work.two(i + k * pair, k);
  }
  for (std::int64_t at = lead + i; at < n; at += pair) {
    if (at + pair <= n)
      edge.two(at);
    else
      rest<V>(edge, at, n);
  }
  for (; i + turn <= n; i += turn)
#pragma GCC unroll 4
    for (int k = 0; k < Read::pairs; ++k) read.two(i + k * pair, k);
  for (; i + pair <= n; i += pair) read.two(i, 0);
  Read last = read;
  rest<V>(last, i, n);
  return last;
}

}  // namespace
}  // namespace ridge::kernels
