// The register block, one template for every instruction set: rows x vectors sums stay in registers while k runs, each
// step costs `vectors` loads of B, `rows` broadcasts of A and rows*vectors fused multiply-adds. With AVX-512, 14 x 32
// takes 28 of 32 registers and does 28 multiply-adds for 16 loads. Sums start at zero and C is added once, at the end.
// V names the vectors: lanes, zero, load, load_part, broadcast, multiply_add, and for C sum_load, sum_store and their
// _part forms. V must be a type of an unnamed namespace, so that no other file can link this file's machine code.
#pragma once

#include <array>
#include <utility>

#include "ridge/tile/target/cpu/engine.h"

namespace ridge::tile::cpu {

template <class V, int rows, int vectors, bool packed, bool edge>
[[gnu::always_inline]] inline void multiply_panel(const Block& x, const Unit* b, typename V::Sum* const c) {
  using Sum = typename V::Sum;
  constexpr int lanes = V::lanes, row_groups = (rows + 2) / 3;
  typename V::Register sums[rows][vectors];
#pragma GCC unroll 16
  for (int i = 0; i < rows; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < vectors; ++j) sums[i][j] = V::zero();
  const Index c_stride = x.c_stride;
  const int last = edge ? x.cols - (vectors - 1) * lanes : lanes;
  if (x.far) {
#pragma GCC unroll 16
    for (int i = 0; i < rows; ++i) {
      __builtin_prefetch(c + i * c_stride, 1);
      __builtin_prefetch(c + i * c_stride + lanes * vectors - 1, 1);
    }
  }
  // Three rows share a pointer: x86 addresses base, base + stride and base + 2 * stride without an addition.
  const Index a_stride = x.a_stride, b_stride = x.b_stride;
  const Unit* a[row_groups];
#pragma GCC unroll 16
  for (int i = 0; i < row_groups; ++i) a[i] = x.a + (packed ? 0 : 3 * i * a_stride);
  const auto step = [&](int u) __attribute__((always_inline)) {
    typename V::Register columns[vectors];
#pragma GCC unroll 4
    for (int j = 0; j < vectors; ++j) {
      columns[j] = edge && j == vectors - 1 ? V::load_part(b + lanes * j, last) : V::load(b + lanes * j);
    }
    b += b_stride;
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
  const Ahead na = x.next_a, nb = x.next_b;
  Index k = x.steps, sa = na.from, sb = nb.from;
  // Of vectors half as long twice as many are loaded, and two loads a cycle are the limit: there is room for a walk in
  // steps of one length, but not for the words of a better one.
  const char *near_a = na.base + (sa << na.shift), *near_b = nb.base;
  const Index step_a = na.mask == 0 ? Index{1} << na.shift : 0, step_b = nb.mask == 0 ? 0 : nb.stride;
  for (; k >= 4; k -= 4) {
    if constexpr (lanes == 8) {
      __builtin_prefetch(near_b, 0, 2);
      __builtin_prefetch(near_b + 64, 0, 2);
      __builtin_prefetch(near_a, 0, 2);
      near_a += step_a, near_b += step_b;
    } else {
      const char* const p = nb.base + (sb & nb.mask) * nb.stride + ((sb & ~nb.mask) << nb.shift);
      __builtin_prefetch(p, 0, 2);
      __builtin_prefetch(p + 64, 0, 2);
      __builtin_prefetch(na.base + (sa & na.mask) * na.stride + ((sa & ~na.mask) << na.shift), 0, 2);
      ++sa, ++sb;
    }
    step(0), step(1), step(2), step(3);
    advance(4);
  }
  for (; k > 0; --k) step(0), advance(1);
  if (!edge && x.stream) {
#pragma GCC unroll 16
    for (int i = 0; i < rows; ++i)
#pragma GCC unroll 4
      for (int j = 0; j < vectors; ++j) V::sum_stream(c + i * c_stride + lanes * j, sums[i][j]);
    return;
  }
#pragma GCC unroll 16
  for (int i = 0; i < rows; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < vectors; ++j) {
      Sum* const at = c + i * c_stride + lanes * j;
      if (edge && j == vectors - 1) {
        if (x.add) sums[i][j] = V::sum_add(sums[i][j], V::sum_load_part(at, last));
        V::sum_store_part(at, sums[i][j], last);
      } else {
        if (x.add) sums[i][j] = V::sum_add(sums[i][j], V::sum_load(at));
        V::sum_store(at, sums[i][j]);
      }
    }
}

template <class V, int rows, int vectors, bool packed, bool edge> void multiply_block(const Block& x) {
  auto* const c = static_cast<typename V::Sum*>(x.c);
  for (int panel = 0; panel < x.panels; ++panel)
    multiply_panel<V, rows, vectors, packed, edge>(x, x.b + panel * x.panel_units, c + panel * V::lanes * vectors);
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
