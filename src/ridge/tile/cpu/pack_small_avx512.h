// Packing of a small B along k and transposing narrow results with AVX-512: 16 steps of 4, 8 or 16 columns are
// transposed in registers, with 8, 24 or 64 shuffles. Nothing is prefetched, and steps after the last one are written,
// too, so that no store depends on k.
#pragma once

#include "ridge/tile/cpu/pack_avx512.h"

namespace ridge::tile::cpu {

// Interleaves four registers: element r of the 128-bit lane q of out[i] is element 4q + i of register r.
template <class Tag> [[gnu::always_inline]] inline void interleave_4_words(const __m512i* r, __m512i* out) {
  const __m512i a = _mm512_unpacklo_epi32(r[0], r[1]), b = _mm512_unpackhi_epi32(r[0], r[1]);
  const __m512i c = _mm512_unpacklo_epi32(r[2], r[3]), d = _mm512_unpackhi_epi32(r[2], r[3]);
  out[0] = _mm512_unpacklo_epi64(a, c);
  out[1] = _mm512_unpackhi_epi64(a, c);
  out[2] = _mm512_unpacklo_epi64(b, d);
  out[3] = _mm512_unpackhi_epi64(b, d);
}

// Stores 16 steps of four columns.
template <class Tag>
[[gnu::always_inline]] inline void store_transposed(Unit* out, Index width, const __m512i (&r)[4]) {
  __m512i steps[4];
  interleave_4_words<Tag>(r, steps);
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    const auto store = [&](int q, __m128i x) __attribute__((always_inline)) {
      _mm_storeu_si128(reinterpret_cast<__m128i*>(out + (4 * q + i) * width), x);
    };
    store(0, _mm512_castsi512_si128(steps[i]));
    store(1, _mm512_extracti32x4_epi32(steps[i], 1));
    store(2, _mm512_extracti32x4_epi32(steps[i], 2));
    store(3, _mm512_extracti32x4_epi32(steps[i], 3));
  }
}

// Stores 16 steps of eight columns.
template <class Tag>
[[gnu::always_inline]] inline void store_transposed(Unit* out, Index width, const __m512i (&r)[8]) {
  __m512i steps[8];
  interleave_4_words<Tag>(r, steps);
  interleave_4_words<Tag>(r + 4, steps + 4);
  const __m512i low = _mm512_set_epi64(11, 10, 3, 2, 9, 8, 1, 0), high = _mm512_add_epi64(low, _mm512_set1_epi64(4));
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    const auto store = [&](int q, __m512i x) __attribute__((always_inline)) {
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + (4 * q + i) * width), _mm512_castsi512_si256(x));
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + (4 * q + 4 + i) * width), _mm512_extracti64x4_epi64(x, 1));
    };
    store(0, _mm512_permutex2var_epi64(steps[i], low, steps[4 + i]));
    store(2, _mm512_permutex2var_epi64(steps[i], high, steps[4 + i]));
  }
}

template <class Tag> [[gnu::always_inline]] inline void store_transposed(Unit* out, Index width, __m512i (&r)[16]) {
  transpose_16x16<Tag>(r);
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) _mm512_storeu_si512(out + i * width, r[i]);
}

// Packs up to `columns` columns. Missing ones repeat the last one.
template <class Tag, int columns>
[[gnu::noinline]] void pack_small_columns(const Unit* source, const PackArgs& x, int lanes, Unit* out) {
  Index offset[columns];
  for (int i = 0; i < columns; ++i) offset[i] = (i < lanes ? i : lanes - 1) * x.stride;
  for (Index k = 0; k < x.k; k += 16, out += 16 * x.width) {
    const __mmask16 mask = first_lanes_mask<Tag>(x.k - k);
    __m512i r[columns];
#pragma GCC unroll 16
    for (int i = 0; i < columns; ++i) r[i] = _mm512_maskz_loadu_epi32(mask, source + k + offset[i]);
    store_transposed<Tag>(out, x.width, r);
  }
}

// Packs columns along k to out[k rounded up to 16][width]. Lanes that no column has are undefined.
template <class Tag> void pack_small_along_k(const PackArgs& x) {
  const Unit* source = static_cast<const Unit*>(x.source);
  Unit* out = x.out;
  for (int lanes = x.lanes; lanes > 0; lanes -= 16, source += 16 * x.stride, out += 16) {
    if (lanes > 8)
      pack_small_columns<Tag, 16>(source, x, lanes, out);
    else if (lanes > 4)
      pack_small_columns<Tag, 8>(source, x, lanes, out);
    else
      pack_small_columns<Tag, 4>(source, x, lanes, out);
  }
}

// Copies the transpose of up to eight rows of sums, 16 columns at a time.
template <class Tag> void transpose_sums_avx512(const TransposeArgs& x) {
  const __mmask8 mask = static_cast<__mmask8>((1u << x.rows) - 1);
  Index offset[8];
  for (int i = 0; i < 8; ++i) offset[i] = (i < x.rows ? i : x.rows - 1) * x.stride;
  const __m512i low = _mm512_set_epi64(11, 10, 3, 2, 9, 8, 1, 0), high = _mm512_add_epi64(low, _mm512_set1_epi64(4));
  float* c = x.c;
  for (Index column = 0; column < x.columns; column += 16, c += 16 * x.c_stride) {
    const Index left = x.columns - column;
    const __mmask16 loaded = first_lanes_mask<Tag>(left);
    __m512i r[8], columns[8];
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) r[i] = _mm512_maskz_loadu_epi32(loaded, x.sums + column + offset[i]);
    interleave_4_words<Tag>(r, columns);
    interleave_4_words<Tag>(r + 4, columns + 4);
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      const auto store = [&](int at, __m256i y) __attribute__((always_inline)) {
        if (at < left) _mm256_mask_storeu_epi32(c + at * x.c_stride, mask, y);
      };
      const __m512i first = _mm512_permutex2var_epi64(columns[i], low, columns[4 + i]);
      const __m512i second = _mm512_permutex2var_epi64(columns[i], high, columns[4 + i]);
      store(i, _mm512_castsi512_si256(first));
      store(4 + i, _mm512_extracti64x4_epi64(first, 1));
      store(8 + i, _mm512_castsi512_si256(second));
      store(12 + i, _mm512_extracti64x4_epi64(second, 1));
    }
  }
}

}  // namespace ridge::tile::cpu
