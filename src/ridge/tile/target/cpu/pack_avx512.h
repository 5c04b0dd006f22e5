// Packing with AVX-512. Where k is contiguous a panel is a transposition, done 16 x 16 units at a time in registers (64
// shuffles for 256 units); where lanes are contiguous it is a copy, and for pairs an interleaving of two rows. W is
// what the multiply takes, T what lies in memory. Tag is a type of an unnamed namespace: see block.h.
#pragma once

#include <immintrin.h>

#include "ridge/base/float16.h"
#include "ridge/tile/target/cpu/engine.h"

namespace ridge::tile::cpu {

template <class Tag> [[gnu::always_inline]] inline __mmask16 first_lanes(Index n) {
  return n >= 16 ? 0xffff : n <= 0 ? 0 : static_cast<__mmask16>((1u << n) - 1);
}

template <class Tag> [[gnu::always_inline]] inline void transpose16(__m512i (&r)[16]) {
  __m512i t[16];
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) {
    t[2 * i] = _mm512_unpacklo_epi32(r[2 * i], r[2 * i + 1]);
    t[2 * i + 1] = _mm512_unpackhi_epi32(r[2 * i], r[2 * i + 1]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    r[4 * i] = _mm512_unpacklo_epi64(t[4 * i], t[4 * i + 2]);
    r[4 * i + 1] = _mm512_unpackhi_epi64(t[4 * i], t[4 * i + 2]);
    r[4 * i + 2] = _mm512_unpacklo_epi64(t[4 * i + 1], t[4 * i + 3]);
    r[4 * i + 3] = _mm512_unpackhi_epi64(t[4 * i + 1], t[4 * i + 3]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    t[i] = _mm512_shuffle_i32x4(r[i], r[4 + i], 0x88);
    t[4 + i] = _mm512_shuffle_i32x4(r[i], r[4 + i], 0xdd);
    t[8 + i] = _mm512_shuffle_i32x4(r[8 + i], r[12 + i], 0x88);
    t[12 + i] = _mm512_shuffle_i32x4(r[8 + i], r[12 + i], 0xdd);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    r[i] = _mm512_shuffle_i32x4(t[i], t[8 + i], 0x88);
    r[8 + i] = _mm512_shuffle_i32x4(t[i], t[8 + i], 0xdd);
    r[4 + i] = _mm512_shuffle_i32x4(t[4 + i], t[12 + i], 0x88);
    r[12 + i] = _mm512_shuffle_i32x4(t[4 + i], t[12 + i], 0xdd);
  }
}

// Up to 32 elements in memory as W of two bytes.
template <class Tag, class T, class W> [[gnu::always_inline]] inline __m512i shorts(__mmask32 mask, const T* p) {
  if constexpr (sizeof(T) == 2) {
    return _mm512_maskz_loadu_epi16(mask, p);
  } else {
    static_assert(__is_same(T, std::int8_t), "shorts come of two-byte formats and of int8");
    const __m256i bytes = _mm256_maskz_loadu_epi8(mask, p);
    if constexpr (!__is_same(W, Bf16)) return _mm512_cvtepi8_epi16(bytes);
    const auto half = [](__m128i x) __attribute__((always_inline)) {  // the upper halves of floats: exact for 8 bits
      const __m512 wide = _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(x));
      return _mm512_cvtepi32_epi16(_mm512_srli_epi32(_mm512_castps_si512(wide), 16));
    };
    const __m256i low = half(_mm256_castsi256_si128(bytes)), high = half(_mm256_extracti128_si256(bytes, 1));
    return _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
  }
}

// Up to 16 units of one lane; `left` elements exist from p on.
template <class Tag, class T, class W> [[gnu::always_inline]] inline __m512i units_along(const T* p, Index left) {
  if constexpr (sizeof(W) == 2) {
    return shorts<Tag, T, W>(left >= 32 ? ~__mmask32{0} : (__mmask32{1} << left) - 1, p);
  } else if constexpr (sizeof(T) == 4) {
    return _mm512_maskz_loadu_epi32(first_lanes<Tag>(left), p);
  } else if constexpr (sizeof(T) == 1) {
    static_assert(__is_same(T, std::int8_t), "of one-byte formats int8 is widened");
    return _mm512_castps_si512(
        _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_maskz_loadu_epi8(first_lanes<Tag>(left), p))));
  } else {
    static_assert(sizeof(T) == 2, "widening loads are written for one- and two-byte formats");
    const __m256i bits = _mm256_maskz_loadu_epi16(first_lanes<Tag>(left), p);
    if constexpr (__is_same(T, Bf16)) return _mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16);
    return _mm512_castps_si512(_mm512_cvtph_ps(bits));
  }
}

template <class Tag, class T, class W> void pack_along_avx512(const Packing& x) {
  constexpr Index per_unit = sizeof(Unit) / sizeof(W);
  const Index units = (x.k + per_unit - 1) / per_unit;
  if (x.width == 1) {  // a row of few: no transposition
    for (Index u = 0; u < units; u += 16)
      _mm512_mask_storeu_epi32(
          x.out + u, first_lanes<Tag>(units - u),
          units_along<Tag, T, W>(static_cast<const T*>(x.source) + u * per_unit, x.k - u * per_unit));
    return;
  }
  for (int lane = 0; lane < x.width; lane += 16) {
    const T* const source = static_cast<const T*>(x.source) + lane * x.stride;
    const int lanes = x.lanes - lane;
    const __mmask16 out_mask = first_lanes<Tag>(x.width - lane);
    for (Index u = 0; u < units; u += 16) {
      __m512i r[16];
      for (int i = 0; i < (lanes < 16 ? lanes : 16); ++i)  // k is contiguous: four lines ahead
        __builtin_prefetch(reinterpret_cast<const char*>(source + i * x.stride + u * per_unit) + 256, 0, 3);
      if (lanes >= 16) {
#pragma GCC unroll 16
        for (int i = 0; i < 16; ++i)
          r[i] = units_along<Tag, T, W>(source + i * x.stride + u * per_unit, x.k - u * per_unit);
      } else {
#pragma GCC unroll 16
        for (int i = 0; i < 16; ++i) {
          r[i] = i < lanes ? units_along<Tag, T, W>(source + i * x.stride + u * per_unit, x.k - u * per_unit)
                           : _mm512_setzero_si512();
        }
      }
      transpose16<Tag>(r);
      Unit* const out = x.out + u * x.width + lane;
      const Index steps = units - u < 16 ? units - u : 16;
      if (steps == 16) {
#pragma GCC unroll 16
        for (int i = 0; i < 16; ++i) _mm512_mask_storeu_epi32(out + i * x.width, out_mask, r[i]);
      } else {
#pragma GCC unroll 16
        for (int i = 0; i < 16; ++i)
          if (i < steps) _mm512_mask_storeu_epi32(out + i * x.width, out_mask, r[i]);
      }
    }
  }
}

template <class Tag, class T, class W> void pack_across_avx512(const Packing& x) {
  const T* source = static_cast<const T*>(x.source);
  const __mmask16 in0 = first_lanes<Tag>(x.lanes), in1 = first_lanes<Tag>(x.lanes - 16);
  const __mmask16 out0 = first_lanes<Tag>(x.width), out1 = first_lanes<Tag>(x.width - 16);
  Unit* out = x.out;
  if constexpr (sizeof(W) == 4) {
    for (Index k = 0; k < x.k; ++k, source += x.stride, out += x.width) {
      __builtin_prefetch(source + 12 * x.stride, 0, 3);
      if (out1) __builtin_prefetch(source + 12 * x.stride + 16, 0, 3);
      _mm512_mask_storeu_epi32(out, out0, units_along<Tag, T, W>(source, in0 == 0xffff ? 16 : x.lanes));
      if (out1)
        _mm512_mask_storeu_epi32(out + 16, out1,
                                 units_along<Tag, T, W>(source + 16, in1 == 0xffff ? 16 : x.lanes - 16));
    }
  } else {
    static_assert(sizeof(W) == 2, "pairs");
    const __m512i low = _mm512_set_epi16(47, 15, 46, 14, 45, 13, 44, 12, 43, 11, 42, 10, 41, 9, 40, 8, 39, 7, 38, 6, 37,
                                         5, 36, 4, 35, 3, 34, 2, 33, 1, 32, 0);
    const __m512i high = _mm512_add_epi16(low, _mm512_set1_epi16(16));
    const __mmask32 in = __mmask32{in1} << 16 | in0;
    for (Index k = 0; k < x.k; k += 2, source += 2 * x.stride, out += x.width) {
      __builtin_prefetch(source + 16 * x.stride, 0, 3);
      __builtin_prefetch(source + 17 * x.stride, 0, 3);
      const bool pair = k + 1 < x.k;
      const __m512i even = shorts<Tag, T, W>(in, source);
      const __m512i odd = shorts<Tag, T, W>(pair ? in : 0, source + (pair ? x.stride : 0));
      _mm512_mask_storeu_epi32(out, out0, _mm512_permutex2var_epi16(even, low, odd));
      if (out1) _mm512_mask_storeu_epi32(out + 16, out1, _mm512_permutex2var_epi16(even, high, odd));
    }
  }
}

template <class Tag, class T, class W>
inline constexpr Packers packers_avx512{pack_along_avx512<Tag, T, W>, pack_across_avx512<Tag, T, W>};

}  // namespace ridge::tile::cpu
