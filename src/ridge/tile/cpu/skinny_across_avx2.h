// Products with few rows for B across k or packed, with AVX2. Eight rows of B are read concurrently and evenly, which
// memory serves fastest; 16 columns of them, in the L1, are multiplied with all rows of A. The sums are in the L2; sums
// of 16 columns are contiguous, one stream for the hardware prefetcher instead of one per row of C. Eight rows times
// 4096 x 4096 reach 64 GFLOP/s; 46 when each four rows of A pass over all columns with the sums in C. V: see block.h.
#pragma once

#include <array>
#include <utility>

#include "ridge/tile/cpu/engine.h"
#include "ridge/tile/cpu/pack_avx2.h"

namespace ridge::tile::cpu {

inline constexpr Index across_k_rows_avx2 = 8;  // rows of B read concurrently; six or ten are slower
inline constexpr int across_columns_avx2 = 16;  // columns of a block
inline constexpr int across_rows_avx2 = 4;      // rows of A in one pass over a block
inline constexpr int across_panels_avx2 = 4;    // panels of packed B read concurrently

// Multiplies `rows` of the `all_rows` rows of A with eight rows of B, 16 columns; adds to stored_sums if `accumulate`.
template <class V, class T, int rows, int all_rows>
[[gnu::always_inline]] inline void multiply_across_pass(const Unit* a, const T* const (&b)[3], Index b_stride,
                                                        float* stored_sums, bool accumulate) {
  constexpr int vectors = across_columns_avx2 / 8;
  __m256 sums[rows][vectors];
#pragma GCC unroll 4
  for (int i = 0; i < rows; ++i)
#pragma GCC unroll 2
    for (int v = 0; v < vectors; ++v)
      sums[i][v] = accumulate ? _mm256_load_ps(stored_sums + i * across_columns_avx2 + 8 * v) : V::zero();
#pragma GCC unroll 8
  for (int s = 0; s < across_k_rows_avx2; ++s) {
    __m256 right[vectors];
#pragma GCC unroll 2
    for (int v = 0; v < vectors; ++v) right[v] = load_widened<V>(b[s / 3] + (s % 3) * b_stride + 8 * v);
#pragma GCC unroll 4
    for (int i = 0; i < rows; ++i) {
      const __m256 l = V::broadcast(a[s * all_rows + i]);
#pragma GCC unroll 2
      for (int v = 0; v < vectors; ++v) sums[i][v] = V::multiply_add(sums[i][v], l, right[v]);
    }
  }
#pragma GCC unroll 4
  for (int i = 0; i < rows; ++i)
#pragma GCC unroll 2
    for (int v = 0; v < vectors; ++v) _mm256_store_ps(stored_sums + i * across_columns_avx2 + 8 * v, sums[i][v]);
}

// Multiplies A with eight rows of B, `blocks` x 16 columns.
template <class V, class T, int rows>
void multiply_across_avx2(const SkinnyArgs& x, const Unit* a, const T* from, Index blocks, bool accumulate) {
  constexpr int passes = (rows + across_rows_avx2 - 1) / across_rows_avx2;
  constexpr auto first = [](int pass) { return rows / passes * pass + (pass < rows % passes ? pass : rows % passes); };
  const Index b_stride = x.b_stride, panel = x.b_panel_stride;
  const T* b[3] = {from, from + 3 * b_stride, from + 6 * b_stride};  // three rows share a pointer: see block.h
  float* stored_sums = static_cast<float*>(x.scratch_sums);
  for (; blocks > 0; --blocks) {
    [&]<int... pass>(std::integer_sequence<int, pass...>) __attribute__((always_inline)) {
      (multiply_across_pass<V, T, first(pass + 1) - first(pass), rows>(
           a + first(pass), b, b_stride, stored_sums + first(pass) * across_columns_avx2, accumulate),
       ...);
    }
    (std::make_integer_sequence<int, passes>{});
    stored_sums += rows * across_columns_avx2;
    b[0] += panel;
    b[1] += panel;
    b[2] += panel;
  }
}

template <class V, class T, int... i>
constexpr std::array<void (*)(const SkinnyArgs&, const Unit*, const T*, Index, bool), sizeof...(i)> across_functions(
    std::integer_sequence<int, i...>) {
  return {multiply_across_avx2<V, T, i + 1>...};
}
template <class V, class T> inline constexpr auto across_by_rows =
    across_functions<V, T>(std::make_integer_sequence<int, max_skinny_rows_across_k>{});

// Multiplies A with the last columns, fewer than 16, of eight rows of B, which are copied and padded with zeros.
template <class V, class T>
void multiply_across_edge(const SkinnyArgs& x, const Unit* a, const T* b, Index from, bool accumulate) {
  alignas(32) float padded[across_k_rows_avx2 * across_columns_avx2];
  for (Index s = 0; s < across_k_rows_avx2; ++s)
    for (int v = 0; v < across_columns_avx2; v += 8) {
      const Index left = x.n - from - v;
      _mm256_store_ps(padded + s * across_columns_avx2 + v,
                      left > 0 ? load_widened<V>(b + s * x.b_stride + from + v, left) : V::zero());
    }
  SkinnyArgs edge = x;
  edge.b_stride = across_columns_avx2;
  edge.scratch_sums = static_cast<float*>(x.scratch_sums) + from * x.rows;
  across_by_rows<V, float>[x.rows - 1](edge, a, padded, 1, accumulate);
}

// Multiplies A, one row at a time, with the remaining rows of B, fewer than eight.
template <class V, class T> [[gnu::noinline]] void multiply_across_tail(const SkinnyArgs& x, const Unit* a, const T* b,
                                                                        Index steps, bool accumulate) {
  float* stored_sums = static_cast<float*>(x.scratch_sums);
  for (Index j = 0; j < x.n; j += across_columns_avx2, b += x.b_panel_stride)
    for (int i = 0; i < x.rows; ++i)
      for (int v = 0; v < across_columns_avx2; v += 8, stored_sums += 8) {
        __m256 sum = accumulate ? _mm256_load_ps(stored_sums) : V::zero();
        for (Index s = 0; s < steps && j + v < x.n; ++s)
          sum = V::multiply_add(sum, V::broadcast(a[s * x.rows + i]),
                                load_widened<V>(b + s * x.b_stride + v, x.n - j - v));
        _mm256_store_ps(stored_sums, sum);
      }
}

template <class V> void store_across_sums(const SkinnyArgs& x) {
  const float* stored_sums = static_cast<const float*>(x.scratch_sums);
  for (Index j = 0; j < x.n; j += across_columns_avx2)
    for (int i = 0; i < x.rows; ++i)
      for (int v = 0; v < across_columns_avx2; v += 8, stored_sums += 8) {
        if (j + v >= x.n) continue;
        float* const c = static_cast<float*>(x.c) + i * x.c_stride + j + v;
        const int part = x.n - j - v < 8 ? static_cast<int>(x.n - j - v) : 8;
        const __m256 sum = _mm256_load_ps(stored_sums);
        V::sum_store_part(c, x.accumulate ? V::sum_add(sum, V::sum_load_part(c, part)) : sum, part);
      }
}

// Multiplies over all of k: `full_blocks` x 16 columns and then the partial block.
template <class V, class T> void multiply_across_columns(const SkinnyArgs& x, Index full_blocks) {
  const T* b = static_cast<const T*>(x.b);
  const Unit* a = x.a;
  for (Index k = x.k; k > 0; k -= across_k_rows_avx2) {
    const bool accumulate = k < x.k;
    if (k < across_k_rows_avx2) {
      multiply_across_tail<V, T>(x, a, b, k, accumulate);
    } else {
      across_by_rows<V, T>[x.rows - 1](x, a, b, full_blocks, accumulate);
      if (full_blocks * across_columns_avx2 < x.n)
        multiply_across_edge<V, T>(x, a, b, full_blocks * across_columns_avx2, accumulate);
    }
    a += across_k_rows_avx2 * x.rows;
    b += across_k_rows_avx2 * x.b_stride;
  }
  store_across_sums<V>(x);
}

// Each packed panel is a separate stream, so only a few are read concurrently. The last panel is padded.
template <class V, class T> void skinny_across_k_avx2(const SkinnyArgs& x) {
  if (x.b_panel_stride == across_columns_avx2) return multiply_across_columns<V, T>(x, x.n / across_columns_avx2);
  constexpr Index columns_per_pass = across_panels_avx2 * across_columns_avx2;
  SkinnyArgs part = x;
  for (Index j = 0; j < x.n; j += columns_per_pass) {
    part.n = x.n - j < columns_per_pass ? x.n - j : columns_per_pass;
    part.b = static_cast<const T*>(x.b) + j / across_columns_avx2 * x.b_panel_stride;
    part.c = static_cast<float*>(x.c) + j;
    multiply_across_columns<V, T>(part, (part.n + across_columns_avx2 - 1) / across_columns_avx2);
  }
}

}  // namespace ridge::tile::cpu
