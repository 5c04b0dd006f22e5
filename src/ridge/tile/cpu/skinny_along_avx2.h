// Products with few rows for B along k, with AVX2. As in the AVX-512 code, B is read from memory once, which dominates
// the time. A pass has at most four rows; further passes find B in a cache. V: see block.h.
#pragma once

#include "ridge/tile/cpu/pack_avx2.h"
#include "ridge/tile/cpu/skinny.h"

namespace ridge::tile::cpu {

inline constexpr int skinny_rows_avx2 = 4;

// Returns a register whose first three lanes are the sums of all lanes of a, b and c.
template <class V> [[gnu::always_inline]] inline __m128 sum_lanes_of_3(__m256 a, __m256 b, __m256 c) {
  const __m256 ab = _mm256_add_ps(_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b));
  const __m256 cc = _mm256_add_ps(_mm256_unpacklo_ps(c, c), _mm256_unpackhi_ps(c, c));
  const __m256 all = _mm256_add_ps(_mm256_shuffle_ps(ab, cc, 0x44), _mm256_shuffle_ps(ab, cc, 0xee));
  return _mm_add_ps(_mm256_castps256_ps128(all), _mm256_extractf128_ps(all, 1));
}

// Dot products in eight lanes for `multiply_skinny_along_k`, used for more than max_skinny_rows rows.
template <class V, class T> struct Dots8 {
  using Element = T;
  using Sum = float;
  static constexpr int rows = 4;  // rows in one pass
  static constexpr Index per_unit = 1, block_columns = 12;
  static constexpr int columns(int) { return 3; }

  template <int rows, int columns>
  [[gnu::always_inline]] static void multiply(const SkinnyArgs& x, const T* b, float* c, Index prefetch_distance) {
    constexpr Index line = 64 / sizeof(T);
    __m256 sums[rows][columns];
#pragma GCC unroll 4
    for (int i = 0; i < rows; ++i)
#pragma GCC unroll 4
      for (int j = 0; j < columns; ++j) sums[i][j] = V::zero();
    const Index a_stride = x.k, b_stride = x.b_stride;
    const float* a = reinterpret_cast<const float*>(x.a_by_rows);
    const auto step = [&](Index k, Index left) __attribute__((always_inline)) {
      __m256 right[columns];
#pragma GCC unroll 4
      for (int j = 0; j < columns; ++j) right[j] = load_widened<V>(b + j * b_stride + k, left);
#pragma GCC unroll 4
      for (int i = 0; i < rows; ++i) {
        const __m256 l = load_widened<V>(a + i * a_stride + k, left);
#pragma GCC unroll 4
        for (int j = 0; j < columns; ++j) sums[i][j] = V::multiply_add(sums[i][j], l, right[j]);
      }
    };
    Index k = x.k;
    for (; k >= line; k -= line, a += line, b += line) {
      if constexpr (rows > 1) {
#pragma GCC unroll 4
        for (int j = 0; j < columns; ++j) __builtin_prefetch(b + j * b_stride + prefetch_distance, 0, 2);
      }
#pragma GCC unroll 8
      for (Index at = 0; at < line; at += 8) step(at, 8);
    }
    for (Index at = 0; at < k; at += 8) step(at, k - at);
#pragma GCC unroll 4
    for (int i = 0; i < rows; ++i) {
      float found[4];
      _mm_storeu_ps(found, sum_lanes_of_3<V>(sums[i][0], sums[i][columns > 1 ? 1 : 0], sums[i][columns > 2 ? 2 : 0]));
      float* const to = c + i * x.c_stride;
#pragma GCC unroll 4
      for (int j = 0; j < columns; ++j) to[j] = x.accumulate ? to[j] + found[j] : found[j];
    }
  }
};

// For at most eight rows: memory is fastest when several long streams are read concurrently and evenly (eight rows
// times 4096 x 14336: 49 GFLOP/s with successive runs of 2 KiB, 55 with six streams over all of k), and all rows of A
// should use a part of B while it is in the L1. So six columns are read in short k blocks, and the lanes of their sums
// stay in the L1 between k blocks.
inline constexpr int dots_k_block_avx2 = 128;  // units of k per k block
inline constexpr int dots_columns_avx2 = 6;    // columns read concurrently
inline constexpr Index dots_sweep_units_avx2 =
    32768;  // units of A, which stay in the L2 while all columns are multiplied

template <class T> struct DotsArgs {
  const float* a = nullptr;  // [rows][k]
  const T* b = nullptr;
  Index b_stride = 0, k = 0;
  float* sums = nullptr;        // [rows][dots_columns_avx2][8 lanes]
  bool accumulate = false;      // true if products are added to `sums`
  Index prefetch_distance = 0;  // elements; 0: no prefetch
};

template <class V, class T, int rows, int columns, bool prefetches> void dots_avx2(const DotsArgs<T>& x) {
  constexpr Index line = 64 / sizeof(T);
  const Index a_stride = x.k, b_stride = x.b_stride, prefetch_distance = x.prefetch_distance;
  const float* a = x.a;
  const T* b = x.b;
  float* const stored_sums = x.sums;
  __m256 sums[rows][columns];
#pragma GCC unroll 4
  for (int i = 0; i < rows; ++i)
#pragma GCC unroll 6
    for (int j = 0; j < columns; ++j)
      sums[i][j] = x.accumulate ? _mm256_load_ps(stored_sums + (i * dots_columns_avx2 + j) * 8) : V::zero();
  const auto step = [&](Index k, Index left) __attribute__((always_inline)) {
    __m256 right[columns];
#pragma GCC unroll 6
    for (int j = 0; j < columns; ++j) right[j] = load_widened<V>(b + j * b_stride + k, left);
#pragma GCC unroll 4
    for (int i = 0; i < rows; ++i) {
      const __m256 l = load_widened<V>(a + i * a_stride + k, left);
#pragma GCC unroll 6
      for (int j = 0; j < columns; ++j) sums[i][j] = V::multiply_add(sums[i][j], l, right[j]);
    }
  };
  Index k = x.k;
  for (; k >= line; k -= line, a += line, b += line) {
    if constexpr (prefetches) {
#pragma GCC unroll 6
      for (int j = 0; j < columns; ++j) __builtin_prefetch(b + j * b_stride + prefetch_distance, 0, 3);
    }
#pragma GCC unroll 8
    for (Index at = 0; at < line; at += 8) step(at, 8);
  }
  for (Index at = 0; at < k; at += 8) step(at, k - at);
#pragma GCC unroll 4
  for (int i = 0; i < rows; ++i)
#pragma GCC unroll 6
    for (int j = 0; j < columns; ++j) _mm256_store_ps(stored_sums + (i * dots_columns_avx2 + j) * 8, sums[i][j]);
}

// Multiplies all rows over one k block. Memory would be idle during a second pass, so the second pass prefetches the
// next k block. With one pass the hardware prefetcher suffices.
template <class V, class T> void multiply_k_block(const DotsArgs<T>& x, int rows, int columns) {
  using DotsPass = void (*)(const DotsArgs<T>&);
  static constexpr DotsPass one[][4] = {{dots_avx2<V, T, 1, 1, false>, dots_avx2<V, T, 2, 1, false>,
                                         dots_avx2<V, T, 3, 1, false>, dots_avx2<V, T, 4, 1, false>},
                                        {dots_avx2<V, T, 1, 6, false>, dots_avx2<V, T, 2, 6, false>,
                                         dots_avx2<V, T, 3, 3, false>, dots_avx2<V, T, 4, 3, false>}};
  static constexpr DotsPass second[] = {dots_avx2<V, T, 2, 3, true>, dots_avx2<V, T, 3, 3, true>,
                                        dots_avx2<V, T, 4, 3, true>};
  const bool is_full = columns == dots_columns_avx2, two = rows > skinny_rows_avx2;
  const int full_width = rows <= 2 ? 6 : 3;
  const int wide = is_full ? full_width : 1, first = two ? (rows + 1) / 2 : rows;
  DotsArgs<T> part = x;
  const auto pass = [&](DotsPass run) {
    for (int j = 0; j < columns; j += wide, part.b += wide * x.b_stride, part.sums += wide * 8) run(part);
  };
  pass(one[is_full ? 1 : 0][first - 1]);
  if (!two) return;
  part = x;
  part.a += first * x.k;
  part.sums += first * dots_columns_avx2 * 8;
  pass(is_full ? second[rows - first - 2] : one[0][rows - first - 1]);
}

template <class V, class T> void few_rows_along_k_avx2(const SkinnyArgs& x) {
  alignas(64) float lanes[max_skinny_rows * dots_columns_avx2 * 8];
  const Index k_per_sweep = dots_sweep_units_avx2 / x.rows / dots_k_block_avx2 * dots_k_block_avx2;
  for (Index from = 0; from < x.k; from += k_per_sweep)
    for (Index j = 0; j < x.n; j += dots_columns_avx2) {
      const int columns = static_cast<int>(x.n - j < dots_columns_avx2 ? x.n - j : dots_columns_avx2);
      const Index end = x.k - from < k_per_sweep ? x.k : from + k_per_sweep;
      const T* const b = static_cast<const T*>(x.b) + j * x.b_stride;
      for (Index k = from; k < end; k += dots_k_block_avx2) {
        const Index block_k = end - k < dots_k_block_avx2 ? end - k : dots_k_block_avx2;
        const float* const a = reinterpret_cast<const float*>(x.a_by_rows) + k * x.rows;
        const Index prefetch_distance = end - k >= 2 * block_k ? block_k : 0;
        multiply_k_block<V, T>({a, b + k, x.b_stride, block_k, lanes, k > from, prefetch_distance}, x.rows, columns);
      }
      float* const c = static_cast<float*>(x.c) + j;
      for (int i = 0; i < x.rows; ++i) {
        const float* const of = lanes + i * dots_columns_avx2 * 8;
        for (int q = 0; q < columns; q += 3) {  // lanes after the last column are ignored
          float found[4];
          _mm_storeu_ps(found, sum_lanes_of_3<V>(_mm256_load_ps(of + q * 8), _mm256_load_ps(of + q * 8 + 8),
                                                 _mm256_load_ps(of + q * 8 + 16)));
          float* const to = c + i * x.c_stride + q;
          for (int v = 0; v < 3 && q + v < columns; ++v) to[v] = x.accumulate || from > 0 ? to[v] + found[v] : found[v];
        }
      }
    }
}

template <class V, class T> void skinny_along_k_avx2(const SkinnyArgs& x) {
  x.rows <= max_skinny_rows ? few_rows_along_k_avx2<V, T>(x) : multiply_skinny_along_k<Dots8<V, T>>(x);
}

}  // namespace ridge::tile::cpu
