// Products with few rows, where B is read once and its bytes are the cost: as thin_avx512.h, in f32 with 16 registers
// of 8 sums. At most four rows share a pass; further passes find what the first one read in a cache. V: see block.h.
#pragma once

#include "ridge/tile/target/cpu/pack_avx2.h"

namespace ridge::tile::cpu {

inline constexpr int thin_rows_avx2 = 4;

// C[rows][n] (+)= A[rows][steps] * rows of B from `b` on; a: [steps][x.rows]. `ahead`: elements to what to fetch.
template <class V, class T, int rows>
void across_avx2(const Strip& x, const Unit* a, const T* b, float* c, Index steps, Index ahead, bool add) {
  constexpr int vectors = rows == 1 ? 4 : 2, width = 8 * vectors;
  const Index n = x.n, a_stride = x.rows, b_stride = x.b_stride, c_stride = x.c_stride;
  const auto columns = [&](Index j, auto whole) __attribute__((always_inline)) {
    const Index left = n - j;
    const auto part = [&](int v) {
      return static_cast<int>(left - 8 * v < 0 ? 0 : left - 8 * v < 8 ? left - 8 * v : 8);
    };
    __m256 sums[rows][vectors];
#pragma GCC unroll 4
    for (int i = 0; i < rows; ++i)
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) {
        const float* const at = c + i * c_stride + j + 8 * v;
        sums[i][v] = !add ? V::zero() : whole() ? V::sum_load(at) : V::sum_load_part(at, part(v));
      }
#pragma GCC unroll 4
    for (Index s = 0; s < steps; ++s) {
      const T* const p = b + s * b_stride + j;
      __m256 right[vectors];
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v)
        right[v] = whole() ? widened8<V>(p + 8 * v) : part(v) == 0 ? V::zero() : widened8<V>(p + 8 * v, left - 8 * v);
      if constexpr (rows > 1) __builtin_prefetch(p + ahead, 0, 2);
      if constexpr (rows > 1 && width * sizeof(T) > 64) __builtin_prefetch(p + ahead + 64 / sizeof(T), 0, 2);
#pragma GCC unroll 4
      for (int i = 0; i < rows; ++i) {
        const __m256 l = V::broadcast(a[s * a_stride + i]);
#pragma GCC unroll 4
        for (int v = 0; v < vectors; ++v) sums[i][v] = V::multiply_add(sums[i][v], l, right[v]);
      }
    }
#pragma GCC unroll 4
    for (int i = 0; i < rows; ++i)
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) {
        float* const at = c + i * c_stride + j + 8 * v;
        if (whole())
          V::sum_store(at, sums[i][v]);
        else if (part(v) > 0)
          V::sum_store_part(at, sums[i][v], part(v));
      }
  };
  Index j = 0;
  for (; j + width <= n; j += width) columns(j, [] { return true; });
  if (j < n) columns(j, [] { return false; });
}

// Eight rows of B at a time, over which all rows of A pass.
template <class V, class T> void thin_across_avx2(const Strip& x) {
  static constexpr void (*by_rows[])(const Strip&, const Unit*, const T*, float*, Index, Index, bool) = {
      across_avx2<V, T, 1>, across_avx2<V, T, 2>, across_avx2<V, T, 3>, across_avx2<V, T, 4>};
  const Index deep = x.rows == 1 ? 4 : 8;
  const int passes = (x.rows + thin_rows_avx2 - 1) / thin_rows_avx2;
  for (Index k = 0; k < x.k; k += deep) {
    const Index steps = x.k - k < deep ? x.k - k : deep, ahead = k + 2 * deep <= x.k ? deep * x.b_stride : 0;
    for (int pass = 0, row = 0, rows = 0; pass < passes; ++pass, row += rows) {
      rows = x.rows / passes + (pass < x.rows % passes ? 1 : 0);
      by_rows[rows - 1](x, x.a + k * x.rows + row, static_cast<const T*>(x.b) + k * x.b_stride,
                        static_cast<float*>(x.c) + row * x.c_stride, steps, pass == 0 ? ahead : 0, x.add || k > 0);
    }
  }
}

// C[rows][columns] (+)= A[rows][k] * B[columns][k] transposed, k contiguous in both. `ahead`: elements to what to
// fetch.
template <class V, class T, int rows, int columns>
[[gnu::always_inline]] inline void dot_products_avx2(const Strip& x, const T* b, float* c, Index ahead) {
  __m256 sums[rows][columns];
#pragma GCC unroll 4
  for (int i = 0; i < rows; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < columns; ++j) sums[i][j] = V::zero();
  const auto step = [&](Index k, auto right_of, auto left_of) __attribute__((always_inline)) {
    __m256 right[columns];
#pragma GCC unroll 4
    for (int j = 0; j < columns; ++j) {
      right[j] = right_of(b + j * x.b_stride + k);
      if constexpr (rows > 1) __builtin_prefetch(b + j * x.b_stride + k + ahead, 0, 2);
    }
#pragma GCC unroll 4
    for (int i = 0; i < rows; ++i) {
      const __m256 l = left_of(reinterpret_cast<const float*>(x.a_rows) + i * x.k + k);
#pragma GCC unroll 4
      for (int j = 0; j < columns; ++j) sums[i][j] = V::multiply_add(sums[i][j], l, right[j]);
    }
  };
  Index k = 0;
  for (; k + 8 <= x.k; k += 8) {
    step(
        k, [](const T* p) __attribute__((always_inline)) { return widened8<V>(p); },
        [](const float* p) __attribute__((always_inline)) { return _mm256_loadu_ps(p); });
  }
  if (const Index left = x.k - k; left > 0)
    step(
        k, [&](const T* p) __attribute__((always_inline)) { return widened8<V>(p, left); },
        [&](const float* p) __attribute__((always_inline)) { return widened8<V>(p, left); });
#pragma GCC unroll 4
  for (int i = 0; i < rows; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < columns; ++j) {
      __m128 sum = _mm_add_ps(_mm256_castps256_ps128(sums[i][j]), _mm256_extractf128_ps(sums[i][j], 1));
      sum = _mm_add_ps(sum, _mm_movehl_ps(sum, sum));
      sum = _mm_add_ss(sum, _mm_movehdup_ps(sum));
      float* const at = c + i * x.c_stride + j;
      _mm_store_ss(at, x.add ? _mm_add_ss(_mm_load_ss(at), sum) : sum);
    }
}

// One pass of `rows` rows over x.n columns.
template <class V, class T, int rows> void along_avx2(const Strip& x, bool first) {
  constexpr int columns = rows == 1 ? 4 : 3;
  const T* const b = static_cast<const T*>(x.b);
  float* const c = static_cast<float*>(x.c);
  Index j = 0;
  for (; j + columns <= x.n; j += columns)
    dot_products_avx2<V, T, rows, columns>(x, b + j * x.b_stride, c + j, first ? columns * x.b_stride : 0);
  for (; j < x.n; ++j) dot_products_avx2<V, T, rows, 1>(x, b + j * x.b_stride, c + j, 0);
}

// Stretches of k, in each strips of columns, over each of which all rows pass, four or fewer at a time.
template <class V, class T> void thin_along_avx2(const Strip& x) {
  static constexpr void (*by_rows[])(const Strip&, bool) = {along_avx2<V, T, 1>, along_avx2<V, T, 2>,
                                                            along_avx2<V, T, 3>, along_avx2<V, T, 4>};
  const Index deep = thin_depth(x.rows);
  const int passes = (x.rows + thin_rows_avx2 - 1) / thin_rows_avx2;
  const Index wide = passes == 1 ? x.n : 12;
  for (Index k = 0; k < x.k; k += deep)
    for (Index j = 0; j < x.n; j += wide) {
      Strip part = x;
      part.k = x.k - k < deep ? x.k - k : deep;
      part.n = x.n - j < wide ? x.n - j : wide;
      part.b = static_cast<const T*>(x.b) + j * x.b_stride + k;
      part.add = x.add || k > 0;
      for (int pass = 0, row = 0; pass < passes; ++pass, row += part.rows) {
        part.rows = x.rows / passes + (pass < x.rows % passes ? 1 : 0);
        part.a_rows = x.a_rows + k * x.rows + row * part.k;
        part.c = static_cast<float*>(x.c) + row * x.c_stride + j;
        by_rows[part.rows - 1](part, pass == 0);
      }
    }
}

}  // namespace ridge::tile::cpu
