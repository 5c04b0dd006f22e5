// The register block, one template for every instruction set: rows x vectors sums stay in registers while k runs, each
// step costs `vectors` loads of B, `rows` broadcasts of A and rows*vectors fused multiply-adds. With AVX-512, 14 x 32
// takes 28 of 32 registers and does 28 multiply-adds for 16 loads. Sums start at zero and C is added once, at the end.
// V names the vectors: lanes, zero, load, load_part, broadcast, multiply_add, and for C sum_load, sum_store and their
// _part forms. V must be a type of an unnamed namespace, so that no other file can link this file's machine code.
#pragma once

#include <array>
#include <type_traits>
#include <utility>

#include "ridge/tile/target/cpu/engine.h"

namespace ridge::tile::cpu {

// Walks through what is fetched ahead, a step every four steps of k. Of vectors of eight twice as many are loaded as of
// sixteen, and two loads a cycle are the limit: there is room for a walk in steps of one length, but not for the words
// of a better one.
template <class V> struct Fetching {
  Ahead a, b;
  Index sa, sb;
  const char *near_a, *near_b;
  Index step_a, step_b;
  [[gnu::always_inline]] Fetching(const Ahead& next_a, const Ahead& next_b)
      : a(next_a),
        b(next_b),
        sa(a.from),
        sb(b.from),
        near_a(a.base + (sa << a.shift)),
        near_b(b.base),
        step_a(a.mask == 0 ? Index{1} << a.shift : 0),
        step_b(b.mask == 0 ? 0 : b.stride) {}
  [[gnu::always_inline]] void next() {
    if constexpr (V::lanes == 8) {
      __builtin_prefetch(near_b, 0, 2);
      __builtin_prefetch(near_b + 64, 0, 2);
      __builtin_prefetch(near_a, 0, 2);
      near_a += step_a, near_b += step_b;
    } else {
      const char* const p = b.base + (sb & b.mask) * b.stride + ((sb & ~b.mask) << b.shift);
      __builtin_prefetch(p, 0, 2);
      __builtin_prefetch(p + 64, 0, 2);
      __builtin_prefetch(a.base + (sa & a.mask) * a.stride + ((sa & ~a.mask) << a.shift), 0, 2);
      ++sa, ++sb;
    }
  }
  [[gnu::always_inline]] void next_panel() {
    b.base += b.panel, near_b = b.base, sb = b.from;
    if (V::lanes == 8 && near_a >= a.base + a.bytes) near_a = a.base, step_a = 0;
  }
};

// Whether V has a store that passes by the caches.
template <class V> constexpr bool streams = requires(typename V::Sum* p, typename V::Register x) {
  V::sum_stream(p, x);
};

// Whether its blocks can leave B packed as they pass.
template <class V> constexpr bool keeps = requires(Unit* p, typename V::Register x) { V::keep(p, x); };

// Fetches what C holds under one panel: its first and last column, since a row need not begin with a line. Not a panel
// earlier: rows of a power of two lie in one set of the L1, and what B brings there would push them out again. Nor in
// the midst of the panel's steps: a loop in two parts costs a twentieth where other threads use the core's memory.
template <class V, int rows, int vectors>
[[gnu::always_inline]] inline void fetch(const typename V::Sum* c, Index stride) {
#pragma GCC unroll 16
  for (int i = 0; i < rows; ++i, c += stride) {
    __builtin_prefetch(c, 1);
    __builtin_prefetch(c + V::lanes * vectors - 1, 1);
  }
}

// Whether its sums start from what follows the panel of A: see Engine::left_tail.
template <class V> constexpr bool starts = requires { V::left_tail; };

// What is held of x lies in registers: the compiler must take every store to C for one to x.
template <class V, int rows, int vectors, bool packed, bool edge, bool keeping>
[[gnu::always_inline]] inline void multiply_panel(const Block& x, const Unit* b, Unit* keep, typename V::Sum* c,
                                                  bool add, bool stream, Fetching<V>& fetching) {
  constexpr int lanes = V::lanes, row_groups = (rows + 2) / 3;
  typename V::Register sums[rows][vectors];
#pragma GCC unroll 16
  for (int i = 0; i < rows; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < vectors; ++j) {
      if constexpr (starts<V>)
        sums[i][j] = V::broadcast(x.a[x.steps * rows + i]);
      else
        sums[i][j] = V::zero();
    }
  const Index c_stride = x.c_stride;
  const int last = edge ? x.cols - (vectors - 1) * lanes : lanes;
  // Three rows share a pointer: x86 addresses base, base + stride and base + 2 * stride without an addition.
  const Index a_stride = x.a_stride, b_stride = x.b_stride;
  const Unit* a[row_groups];
#pragma GCC unroll 16
  for (int i = 0; i < row_groups; ++i) a[i] = x.a + (packed ? 0 : 3 * i * a_stride);
  const auto step = [&](int u) __attribute__((always_inline)) {
    typename V::Register columns[vectors];
    if constexpr (keeping) __builtin_prefetch(b + 4 * b_stride, 0, 3);
#pragma GCC unroll 4
    for (int j = 0; j < vectors; ++j) {
      columns[j] = edge && j == vectors - 1 ? V::load_part(b + lanes * j, last) : V::load(b + lanes * j);
    }
    b += b_stride;
    if constexpr (keeping) {
#pragma GCC unroll 4
      for (int j = 0; j < vectors; ++j) V::keep(keep + lanes * j, columns[j]);
      keep += 2 * lanes;
    }
#pragma GCC unroll 16
    for (int i = 0; i < rows; ++i) {
      const auto left = V::broadcast(packed ? a[0][u * rows + i] : a[i / 3][(i % 3) * a_stride + u]);
#pragma GCC unroll 4
      for (int j = 0; j < vectors; ++j) sums[i][j] = V::multiply_add(sums[i][j], left, columns[j]);
    }
  };
  const auto advance = [&](int n) __attribute__((always_inline)) {
    if constexpr (packed) {
      a[0] += n * rows;
    } else {
#pragma GCC unroll 16
      for (int i = 0; i < row_groups; ++i) a[i] += n;
    }
  };
  Index k = x.steps;
  for (; k >= 4; k -= 4) {
    fetching.next();
    step(0), step(1), step(2), step(3);
    advance(4);
  }
  for (; k > 0; --k) step(0), advance(1);
  const auto finish = [&](auto one) __attribute__((always_inline)) {
    typename V::Sum* at = c;
#pragma GCC unroll 16
    for (int i = 0; i < rows; ++i, at += c_stride)
#pragma GCC unroll 4
      for (int j = 0; j < vectors; ++j) one(at + lanes * j, sums[i][j], edge && j == vectors - 1);
  };
  if (add) {
    finish([&](typename V::Sum * at, typename V::Register sum, bool part) __attribute__((always_inline)) {
      if (part)
        V::sum_store_part(at, V::sum_add(sum, V::sum_load_part(at, last)), last);
      else
        V::sum_store(at, V::sum_add(sum, V::sum_load(at)));
    });
  } else {
    finish([&](typename V::Sum * at, typename V::Register sum, bool part) __attribute__((always_inline)) {
      if (part) return V::sum_store_part(at, sum, last);
      if constexpr (streams<V> && !edge) {
        if (stream) return V::sum_stream(at, sum);
      }
      V::sum_store(at, sum);
    });
  }
}

template <class V, int rows, int vectors, bool packed, bool edge, bool keeping>
[[gnu::always_inline]] inline void multiply_panels(const Block& x) {
  constexpr int width = V::lanes * vectors;
  auto* c = static_cast<typename V::Sum*>(x.c);
  const Unit* b = x.b;
  Unit* keep = x.keep;
  const bool add = x.add, stream = streams<V> && x.stream;
  const Index panel_units = x.panel_units;
  Fetching<V> fetching(x.next_a, x.next_b);
  for (int panel = x.panels;;) {
    if (!stream) fetch<V, rows, vectors>(c, x.c_stride);
    multiply_panel<V, rows, vectors, packed, edge, keeping>(x, b, keep, c, add, stream, fetching);
    if (--panel <= 0) return;
    b += panel_units, c += width, fetching.next_panel();
    if constexpr (keeping) keep += x.keep_units;
  }
}

// A function of its own: in one with the other loop, the compiler moves the sums of both about.
template <class V, int rows, int vectors, bool edge> [[gnu::noinline]] void multiply_and_keep(const Block& x) {
  multiply_panels<V, rows, vectors, true, edge, true>(x);
}

template <class V, int rows, int vectors, bool packed, bool edge> void multiply_block(const Block& x) {
  if constexpr (packed && keeps<V>) {
    if (x.keep != nullptr) return multiply_and_keep<V, rows, vectors, edge>(x);
  }
  multiply_panels<V, rows, vectors, packed, edge, false>(x);
}

using BlockFunction = void (*)(const Block&);

template <class V, int vectors, bool packed, bool edge, int... i>
constexpr std::array<BlockFunction, sizeof...(i)> block_rows(std::integer_sequence<int, i...>) {
  return {multiply_block<V, i + 1, vectors, packed, edge>...};
}

// Looks up the instance for x.rows and x.cols. `direct`: whether A may lie unpacked.
template <class V, int most_rows, bool direct> void block(const Block& x) {
  constexpr auto rows = std::make_integer_sequence<int, most_rows>{};
  static constexpr std::array<BlockFunction, most_rows> table[8] = {
      block_rows<V, 1, true, false>(rows),    block_rows<V, 1, true, true>(rows),
      block_rows<V, 2, true, false>(rows),    block_rows<V, 2, true, true>(rows),
      block_rows<V, 1, !direct, false>(rows), block_rows<V, 1, !direct, true>(rows),
      block_rows<V, 2, !direct, false>(rows), block_rows<V, 2, !direct, true>(rows),
  };
  const int wide = x.cols > V::lanes ? 1 : 0, edge = x.cols % V::lanes != 0 ? 1 : 0;
  table[(x.packed ? 0 : 4) + wide * 2 + edge][x.rows - 1](x);
}

}  // namespace ridge::tile::cpu
