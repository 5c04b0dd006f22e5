// Products with few rows, with AVX-512. B is read from memory once, which dominates the time. 4096 x 4096 f32 at 30
// GB/s take 2.2 ms, the FLOPs of one row a tenth of that. B is not packed. For B across k, four or eight rows of units
// at a time are multiplied over a block of columns whose sums stay in the L2; for B along k, sums are dot products with
// three or four columns of B at a time. Both prefetch the next rows or columns meanwhile. V: see block.h.
#pragma once

#include "ridge/tile/cpu/block.h"
#include "ridge/tile/cpu/skinny.h"
#include "ridge/tile/cpu/vectors_avx512.h"

namespace ridge::tile::cpu {

struct RightRows {                             // rows of B that one call multiplies
  Index k = 0, prefetch_distance[2] = {0, 0};  // number of rows; distances for even and odd steps, elements
  const Unit* start_sums = nullptr;            // initial values of the sums, or null for zero
};

// Loads units of up to 16 or 32 columns of B: elements of one row, widened, pairs of two rows or quads of four. W is
// the element type in the units, T the element type in memory.
template <class V, class W, class T> struct RowUnits;

template <class V, class T> struct RowUnits<V, float, T> {
  static constexpr int vectors = 1, rows = 1;  // vectors of 16 units; rows of B in one unit
  [[gnu::always_inline]] static void load(const T* p, Index, Index, Index left, typename V::Register (&out)[1]) {
    out[0] = __builtin_bit_cast(typename V::Register, load_units<V, T, float>(p, left));
  }
};

template <class V, class W, class T>
requires(sizeof(W) == 2) struct RowUnits<V, W, T> {
  static constexpr int vectors = 2, rows = 2;
  [[gnu::always_inline]] static void load(const T* p, Index stride, Index count, Index left,
                                          typename V::Register (&out)[2]) {
    const __mmask32 mask = left >= 32 ? ~__mmask32{0} : (__mmask32{1} << left) - 1;
    const __m512i x = load_shorts<V, T, W>(mask, p);
    const bool pair = count > 1;
    const __m512i y = load_shorts<V, T, W>(pair ? mask : 0, p + (pair ? stride : 0));
    const __m512i low = pair_indices<V>();
    const __m512i high = _mm512_add_epi16(low, _mm512_set1_epi16(16));
    out[0] = __builtin_bit_cast(typename V::Register, _mm512_permutex2var_epi16(x, low, y));
    out[1] = __builtin_bit_cast(typename V::Register, _mm512_permutex2var_epi16(x, high, y));
  }
};

template <class V, class W>
requires(sizeof(W) == 1) struct RowUnits<V, W, std::int8_t> {
  static constexpr int vectors = 2, rows = 4;
  [[gnu::always_inline]] static void load(const std::int8_t* p, Index stride, Index count, Index left,
                                          typename V::Register (&out)[2]) {
    interleave_quads<V, W>(p, stride, count, left >= 32 ? ~__mmask32{0} : (__mmask32{1} << left) - 1, out);
  }
};

// Returns the number of steps (rows of units of B) that one pass reads: few, because memory serves few streams best.
constexpr int steps_per_pass(int rows) { return rows == 1 || rows > 4 ? 8 : 4; }

// Adds the products of one unit of each row of A and `units` of B to the sums.
template <class V, int rows, int vectors>
[[gnu::always_inline]] inline void add_row_products(const Unit* a, const typename V::Register (&units)[vectors],
                                                    typename V::Register (&sums)[rows][vectors]) {
#pragma GCC unroll 8
  for (int i = 0; i < rows; ++i) {
    if constexpr (can_broadcast_from_memory<V> && vectors == 1) {
      sums[i][0] = V::multiply_add_at(sums[i][0], a[i], units[0]);
    } else {
      const auto l = V::broadcast(a[i]);
#pragma GCC unroll 2
      for (int v = 0; v < vectors; ++v) sums[i][v] = V::multiply_add(sums[i][v], l, units[v]);
    }
  }
}

// Stores the first `left` columns of the sums.
template <class V, int rows, int vectors>
[[gnu::always_inline]] inline void store_row_sums(const typename V::Register (&sums)[rows][vectors], Index left,
                                                  typename V::Sum* c, Index c_stride) {
#pragma GCC unroll 8
  for (int i = 0; i < rows; ++i)
#pragma GCC unroll 2
    for (int v = 0; v < vectors; ++v) V::sum_store_part(c + i * c_stride + 16 * v, sums[i][v], V::part(left - 16 * v));
}

// Computes C[rows][n] (+)= A[rows][k] * B[k][n] for the rows of B that begin at `b`. a is [steps][x.rows].
template <class V, class W, class T, int rows, bool all_rows>
void multiply_right_rows(const SkinnyArgs& x, const Unit* a, const T* b, typename V::Sum* c,
                         const RightRows& right_rows, bool accumulate) {
  constexpr int max_steps = steps_per_pass(all_rows ? rows : max_skinny_rows + 1);
  using Units = RowUnits<V, W, T>;
  constexpr int vectors = Units::vectors, width = 16 * vectors;
  // Locals, because the compiler must assume that a vector store changes the fields of x.
  const Index k = right_rows.k, steps = (k + Units::rows - 1) / Units::rows, n = x.n,
              a_stride = all_rows ? rows : x.rows;
  const Index b_stride = x.b_stride, c_stride = x.c_stride, even = right_rows.prefetch_distance[0],
              odd = right_rows.prefetch_distance[1];
  for (Index j = 0; j < n; j += width) {
    const Index left = n - j;
    const auto part = [&](int v) { return V::part(left - 16 * v); };
    typename V::Register sums[rows][vectors];
#pragma GCC unroll 8
    for (int i = 0; i < rows; ++i)
#pragma GCC unroll 2
      for (int v = 0; v < vectors; ++v) {
        sums[i][v] = accumulate ? V::sum_load_part(c + i * c_stride + j + 16 * v, part(v)) : V::zero();
        if constexpr (has_left_tail<V>)
          if (right_rows.start_sums != nullptr)
            sums[i][v] = V::sum_add(sums[i][v], V::broadcast(right_rows.start_sums[i]));
      }
    const auto step = [&](Index s, Index count) __attribute__((always_inline)) {
      typename V::Register units[vectors];
      const T* const p = b + s * Units::rows * b_stride + j;
      Units::load(p, b_stride, count, left, units);
#pragma GCC unroll 2
      for (int r = 0; r < Units::rows; ++r) __builtin_prefetch(p + (s % 2 == 0 ? even : odd) + r * b_stride, 0, 2);
      add_row_products<V>(a + s * a_stride, units, sums);
    };
    if (k == max_steps * Units::rows) {
#pragma GCC unroll 8
      for (int s = 0; s < max_steps; ++s) step(s, Units::rows);
    } else {
      for (Index s = 0; s < steps; ++s) step(s, k - Units::rows * s);
    }
    store_row_sums<V>(sums, left, c + j, c_stride);
  }
}

// Returns a register whose first four lanes are the sums of all lanes of the four registers.
template <class V>
[[gnu::always_inline]] inline typename V::Register sum_lanes_of_4(const typename V::Register (&of)[4]) {
  using Register = typename V::Register;
  __m512i r[4];
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) r[i] = __builtin_bit_cast(__m512i, of[i]);
  const auto sum = [](__m512i x, __m512i y) __attribute__((always_inline)) {
    return __builtin_bit_cast(__m512i, V::sum_add(__builtin_bit_cast(Register, x), __builtin_bit_cast(Register, y)));
  };
  const __m512i ab = sum(_mm512_unpacklo_epi32(r[0], r[1]), _mm512_unpackhi_epi32(r[0], r[1]));
  const __m512i cd = sum(_mm512_unpacklo_epi32(r[2], r[3]), _mm512_unpackhi_epi32(r[2], r[3]));
  const __m512i all = sum(_mm512_unpacklo_epi64(ab, cd), _mm512_unpackhi_epi64(ab, cd));
  const __m512i half = sum(all, _mm512_shuffle_i32x4(all, all, 0x4e));
  return __builtin_bit_cast(Register, sum(half, _mm512_shuffle_i32x4(half, half, 0xb1)));
}

// Dot products in sixteen lanes for `multiply_skinny_along_k`.
template <class V, class W, class T> struct Dots16 {
  using Element = T;
  using Sum = typename V::Sum;
  static constexpr int rows = 8;  // rows in one pass
  static constexpr Index per_unit = sizeof(Unit) / sizeof(W), block_columns = 48, tail = has_left_tail<V> ? 16 : 0;
  // Returns the number of columns that are multiplied together. It is smaller if decoding needs registers, too.
  static constexpr int columns(int of_rows) {
    if constexpr (requires { T::columns(of_rows); }) return T::columns(of_rows);
    return of_rows >= 7 ? 3 : 4;
  }

  template <int rows, int columns>
  [[gnu::always_inline]] static void multiply(const SkinnyArgs& x, const T* b, Sum* c, Index prefetch_distance) {
    constexpr Index width = 16 * per_unit;
    const Index units = (x.k + per_unit - 1) / per_unit;
    typename V::Register sums[rows][columns];
#pragma GCC unroll 8
    for (int i = 0; i < rows; ++i)
#pragma GCC unroll 4
      for (int j = 0; j < columns; ++j) sums[i][j] = V::zero();
    const auto step = [&](Index k, Index left) __attribute__((always_inline)) {
      typename V::Register right[columns];
#pragma GCC unroll 4
      for (int j = 0; j < columns; ++j) {
        const T* const at = advance_along_k(b + j * x.b_stride, k);
        right[j] = __builtin_bit_cast(typename V::Register, load_units<V, T, W>(at, left));
        if constexpr (rows > 1 || sizeof(T) < sizeof(W)) __builtin_prefetch(at + prefetch_distance, 0, 2);
      }
#pragma GCC unroll 8
      for (int i = 0; i < rows; ++i) {
        auto l =
            V::load_part(x.a_by_rows + i * (units + tail) + k / per_unit, V::part((left + per_unit - 1) / per_unit));
        asm("" : "+v"(l));  // one load instead of one per column: cores load one 64-byte register a cycle
#pragma GCC unroll 4
        for (int j = 0; j < columns; ++j) sums[i][j] = V::multiply_add(sums[i][j], l, right[j]);
      }
    };
    Index k = 0;
    for (; k + width <= x.k; k += width) step(k, width);
    if (k < x.k) step(k, x.k - k);
    store_sums(x, units, sums, c);
  }

  // Adds the lanes of each register and stores the sums in C or adds them to C. The sums of up to four columns of a row
  // are one store; a single column needs a store per row.
  template <int rows, int columns>
  [[gnu::always_inline]] static void store_sums(const SkinnyArgs& x, Index units,
                                                const typename V::Register (&sums)[rows][columns], Sum* c) {
    const Index c_stride = x.c_stride;
    const bool accumulate = x.accumulate;
    if constexpr (columns == 1) {
#pragma GCC unroll 2
      for (int i = 0; i < rows; i += 4) {
        const auto row = [&](int r) __attribute__((always_inline)) {
          if (r >= rows) return V::zero();
          return sums[r < rows ? r : 0][0];
        };
        Sum four[4];
        V::sum_store_part(four, sum_lanes_of_4<V>({row(i), row(i + 1), row(i + 2), row(i + 3)}), V::part(4));
        for (int r = i; r < i + 4 && r < rows; ++r) {
          if constexpr (has_left_tail<V>) four[r - i] += x.a_by_rows[r * (units + tail) + units];
          Sum* const at = c + r * c_stride;
          *at = accumulate ? *at + four[r - i] : four[r - i];
        }
      }
    } else {
      const auto part = V::part(columns);
#pragma GCC unroll 8
      for (int i = 0; i < rows; ++i, c += c_stride) {
        const auto column = [&](int j) __attribute__((always_inline)) {
          if (j >= columns) return V::zero();
          return sums[i][j < columns ? j : 0];
        };
        auto sum = sum_lanes_of_4<V>({column(0), column(1), column(2), column(3)});
        if constexpr (has_left_tail<V>) sum = V::sum_add(sum, V::broadcast(x.a_by_rows[i * (units + tail) + units]));
        V::sum_store_part(c, accumulate ? V::sum_add(sum, V::sum_load_part(c, part)) : sum, part);
      }
    }
  }
};

template <class V, class W, class T> void multiply_skinny_across_k(const SkinnyArgs& x) {
  using AcrossFunction = void (*)(const SkinnyArgs&, const Unit*, const T*, typename V::Sum*, const RightRows&, bool);
  static constexpr AcrossFunction one_pass[] = {
      multiply_right_rows<V, W, T, 1, true>, multiply_right_rows<V, W, T, 2, true>,
      multiply_right_rows<V, W, T, 3, true>, multiply_right_rows<V, W, T, 4, true>,
      multiply_right_rows<V, W, T, 5, true>, multiply_right_rows<V, W, T, 6, true>,
      multiply_right_rows<V, W, T, 7, true>, multiply_right_rows<V, W, T, 8, true>};
  static constexpr AcrossFunction two_passes[] = {nullptr,
                                                  nullptr,
                                                  nullptr,
                                                  multiply_right_rows<V, W, T, 4, false>,
                                                  multiply_right_rows<V, W, T, 5, false>,
                                                  multiply_right_rows<V, W, T, 6, false>,
                                                  multiply_right_rows<V, W, T, 7, false>,
                                                  multiply_right_rows<V, W, T, 8, false>};
  using Units = RowUnits<V, W, T>;
  // If B is in the L2, the number of streams does not matter, and longer steps reload the sums of quads less often.
  const bool deeper = Units::rows == 4 && x.b_in_l2 && x.rows > 2;
  const int steps = steps_per_pass(x.rows) * (deeper ? 32 : 1);
  const int passes = (x.rows + max_skinny_rows - 1) / max_skinny_rows;
  const Index k_block = steps * Units::rows;
  for (Index k = 0; k < x.k; k += k_block) {
    const Index distance = k + 2 * k_block <= x.k ? k_block * x.b_stride : 0;
    for (int pass = 0, row = 0, rows = 0; pass < passes; ++pass, row += rows) {
      rows = x.rows / passes + (pass < x.rows % passes ? 1 : 0);
      const Unit* const start_sums =
          has_left_tail<V> && k == 0 ? x.a + (x.k + Units::rows - 1) / Units::rows * x.rows + row : nullptr;
      const RightRows right_rows{x.k - k < k_block ? x.k - k : k_block,
                                 {pass == 0 ? distance : 0, pass + 1 == passes ? distance : 0},
                                 start_sums};
      (passes == 1 ? one_pass : two_passes)[rows - 1](
          x, x.a + k / Units::rows * x.rows + row, static_cast<const T*>(x.b) + k * x.b_stride,
          static_cast<typename V::Sum*>(x.c) + row * x.c_stride, right_rows, x.accumulate || k > 0);
    }
  }
}

}  // namespace ridge::tile::cpu
