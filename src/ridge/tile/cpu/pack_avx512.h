// Packing with AVX-512. Along k it transposes 16 x 16 units at a time in registers (64 shuffles for 256 units); across
// k it copies, and for pairs interleaves two rows. W is the element type in the panel, T the element type in memory.
// vpdpbusd multiplies unsigned by signed, so int8 of B are stored as uint8 with 128 added (W is std::uint8_t), and each
// row of A ends with -128 times its sum (`tail`), which is the initial value of the row's products. int32 wraps around,
// so results are exact. Tag is a type of an unnamed namespace: see block.h.
#pragma once

#include <immintrin.h>

#include "ridge/base/float16.h"
#include "ridge/tile/cpu/engine.h"

namespace ridge::tile::cpu {

template <class Tag> [[gnu::always_inline]] inline __mmask16 first_lanes_mask(Index n) {
  if (n >= 16) return 0xffff;
  if (n <= 0) return 0;
  return static_cast<__mmask16>((1u << n) - 1);
}

template <class Tag> [[gnu::always_inline]] inline void transpose_16x16(__m512i (&r)[16]) {
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

// Loads up to 32 elements and converts them to the two-byte type W.
template <class Tag, class T, class W> [[gnu::always_inline]] inline __m512i load_shorts(__mmask32 mask, const T* p) {
  if constexpr (sizeof(T) == 2) {
    return _mm512_maskz_loadu_epi16(mask, p);
  } else {
    static_assert(__is_same(T, std::int8_t), "load_shorts: two-byte formats and int8 only");
    if constexpr (!__is_same(W, Bf16)) return _mm512_cvtepi8_epi16(_mm256_maskz_loadu_epi8(mask, p));
    const auto half = [](__mmask16 some, const T* at) __attribute__((always_inline)) {
      return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_maskz_loadu_epi8(some, at)));
    };
    const __m512 low = half(static_cast<__mmask16>(mask), p), high = half(static_cast<__mmask16>(mask >> 16), p + 16);
    return __builtin_bit_cast(__m512i, _mm512_cvtne2ps_pbh(high, low));
  }
}

// Loads up to 64 int8 and converts them to the one-byte type W.
template <class Tag, class W> [[gnu::always_inline]] inline __m512i load_quads(__mmask64 mask, const std::int8_t* p) {
  const __m512i x = _mm512_maskz_loadu_epi8(mask, p);
  return __is_same(W, std::uint8_t) ? _mm512_xor_si512(x, _mm512_set1_epi8(-128)) : x;
}

// Interleaves `count` (at most four) rows of up to 32 int8: each of `out` gets the units of 16 columns.
template <class Tag, class W> [[gnu::always_inline]] inline void interleave_quads(const std::int8_t* p, Index stride,
                                                                                  Index count, __mmask32 mask,
                                                                                  __m512i (&out)[2]) {
  const auto row = [&](Index i) __attribute__((always_inline)) {
    if (mask == ~__mmask32{0} && count >= 4)
      return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + i * stride));
    return _mm256_maskz_loadu_epi8(i < count ? mask : 0, p + (i < count ? i : 0) * stride);
  };
  // For two rows: gathers four columns and the four 16 columns later of each row, then interleaves the rows' bytes.
  const __m512i columns = _mm512_set_epi32(15, 11, 7, 3, 14, 10, 6, 2, 13, 9, 5, 1, 12, 8, 4, 0);
  const __m512i interleave = _mm512_broadcast_i32x4(_mm_set_epi8(15, 7, 14, 6, 13, 5, 12, 4, 11, 3, 10, 2, 9, 1, 8, 0));
  const auto two = [&](Index i) __attribute__((always_inline)) {
    const __m512i rows = _mm512_inserti64x4(_mm512_castsi256_si512(row(i)), row(i + 1), 1);
    return _mm512_shuffle_epi8(_mm512_permutexvar_epi32(columns, rows), interleave);
  };
  const __m512i even = two(0), odd = two(2);
  out[0] = _mm512_unpacklo_epi16(even, odd);
  out[1] = _mm512_unpackhi_epi16(even, odd);
  if constexpr (__is_same(W, std::uint8_t))
    for (__m512i& x : out) x = _mm512_xor_si512(x, _mm512_set1_epi8(-128));
}

// Returns total + 128 times the sum of the four int8 of each unit.
template <class Tag> [[gnu::always_inline]] inline __m512i add_quad_sums(__m512i total, __m512i units) {
  return _mm512_dpbusd_epi32(total, _mm512_set1_epi8(-128), units);
}
template <class Tag> [[gnu::always_inline]] inline __m512i negate_lanes(__m512i x) {
  return _mm512_sub_epi32(_mm512_setzero_si512(), x);
}

// Loads up to 16 units of one row or column; the first `left` elements of p exist.
template <class Tag, class T, class W> [[gnu::always_inline]] inline __m512i load_units(const T* p, Index left) {
  if constexpr (requires { T::load(p, left); }) {
    return T::load(p, left);
  } else if constexpr (sizeof(W) == 1) {
    return load_quads<Tag, W>(left >= 64 ? ~__mmask64{0} : (__mmask64{1} << left) - 1, p);
  } else if constexpr (sizeof(W) == 2) {
    return load_shorts<Tag, T, W>(left >= 32 ? ~__mmask32{0} : (__mmask32{1} << left) - 1, p);
  } else if constexpr (sizeof(T) == 4) {
    return _mm512_maskz_loadu_epi32(first_lanes_mask<Tag>(left), p);
  } else if constexpr (sizeof(T) == 1) {
    static_assert(__is_same(T, std::int8_t), "load_units: the only one-byte format is int8");
    return _mm512_castps_si512(
        _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_maskz_loadu_epi8(first_lanes_mask<Tag>(left), p))));
  } else {
    static_assert(sizeof(T) == 2, "load_units: widening needs one- or two-byte formats");
    const __m256i bits = _mm256_maskz_loadu_epi16(first_lanes_mask<Tag>(left), p);
    if constexpr (__is_same(T, Bf16)) return _mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16);
    return _mm512_castps_si512(_mm512_cvtph_ps(bits));
  }
}

// Packs a single row, which needs no transposition.
template <class Tag, class T, class W, int tail>
[[gnu::always_inline]] inline void pack_row_along_k(const PackArgs& x, Index units) {
  constexpr Index per_unit = sizeof(Unit) / sizeof(W);
  __m512i total = _mm512_setzero_si512();
  for (Index u = 0; u < units; u += 16) {
    const __m512i r = load_units<Tag, T, W>(static_cast<const T*>(x.source) + u * per_unit, x.k - u * per_unit);
    _mm512_mask_storeu_epi32(x.out + u, first_lanes_mask<Tag>(units - u), r);
    if constexpr (tail > 0) total = add_quad_sums<Tag>(total, r);
  }
  if constexpr (tail > 0) x.out[units] = -_mm512_reduce_add_epi32(total);
}

// Stores the first `steps` of 16 transposed registers, `width` units apart.
template <class Tag> [[gnu::always_inline]] inline void store_steps(Unit* out, Index width, Index steps, __mmask16 mask,
                                                                    const __m512i (&r)[16]) {
  if (steps >= 16) {
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) _mm512_mask_storeu_epi32(out + i * width, mask, r[i]);
  } else {
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i)
      if (i < steps) _mm512_mask_storeu_epi32(out + i * width, mask, r[i]);
  }
}

template <class Tag, class T, class W, int tail> void pack_along_k_avx512(const PackArgs& x) {
  constexpr Index per_unit = sizeof(Unit) / sizeof(W);
  const Index units = (x.k + per_unit - 1) / per_unit;
  if (x.width == 1) return pack_row_along_k<Tag, T, W, tail>(x, units);
  for (int lane = 0; lane < x.width; lane += 16) {
    const T* const source = static_cast<const T*>(x.source) + lane * x.stride;
    const int lanes = x.lanes - lane;
    const __mmask16 out_mask = first_lanes_mask<Tag>(x.width - lane);
    __m512i total = _mm512_setzero_si512();
    for (Index u = 0; u < units; u += 16) {
      __m512i r[16];
      for (int i = 0; i < (lanes < 16 ? lanes : 16); ++i)  // four lines in advance
        __builtin_prefetch(reinterpret_cast<const char*>(source + i * x.stride + u * per_unit) + 256, 0, 3);
      if (lanes >= 16) {
#pragma GCC unroll 16
        for (int i = 0; i < 16; ++i)
          r[i] = load_units<Tag, T, W>(source + i * x.stride + u * per_unit, x.k - u * per_unit);
      } else {
#pragma GCC unroll 16
        for (int i = 0; i < 16; ++i) {
          r[i] = i < lanes ? load_units<Tag, T, W>(source + i * x.stride + u * per_unit, x.k - u * per_unit)
                           : _mm512_setzero_si512();
        }
      }
      transpose_16x16<Tag>(r);
      if constexpr (tail > 0) {
#pragma GCC unroll 16
        for (int i = 0; i < 16; ++i) total = add_quad_sums<Tag>(total, r[i]);
      }
      store_steps<Tag>(x.out + u * x.width + lane, x.width, units - u, out_mask, r);
    }
    if constexpr (tail > 0)
      _mm512_mask_storeu_epi32(x.out + units * x.width + lane, out_mask, negate_lanes<Tag>(total));
  }
}

// Returns the indices that interleave the first sixteen elements of two rows.
template <class Tag> [[gnu::always_inline]] inline __m512i pair_indices() {
  return _mm512_set_epi16(47, 15, 46, 14, 45, 13, 44, 12, 43, 11, 42, 10, 41, 9, 40, 8, 39, 7, 38, 6, 37, 5, 36, 4, 35,
                          3, 34, 2, 33, 1, 32, 0);
}

// Masks of the columns of two vectors: those that exist, and those that the panel has.
template <class Tag> struct ColumnMasks {
  __mmask16 in0, in1, out0, out1;
  [[gnu::always_inline]] explicit ColumnMasks(const PackArgs& x)
      : in0(first_lanes_mask<Tag>(x.lanes)),
        in1(first_lanes_mask<Tag>(x.lanes - 16)),
        out0(first_lanes_mask<Tag>(x.width)),
        out1(first_lanes_mask<Tag>(x.width - 16)) {}
  [[gnu::always_inline]] __mmask32 in() const { return __mmask32{in1} << 16 | in0; }
  [[gnu::always_inline]] void store(Unit* out, __m512i low, __m512i high) const {
    _mm512_mask_storeu_epi32(out, out0, low);
    if (out1) _mm512_mask_storeu_epi32(out + 16, out1, high);
  }
};

template <class Tag, class T, class W>
[[gnu::always_inline]] inline void pack_words_across_k(const PackArgs& x, const ColumnMasks<Tag>& masks) {
  const T* source = static_cast<const T*>(x.source);
  Unit* out = x.out;
  const auto [in0, in1, out0, out1] = masks;
  for (Index k = 0; k < x.k; ++k, source += x.stride, out += x.width) {
    __builtin_prefetch(source + 16 * x.stride, 0, 2);
    __builtin_prefetch(source + 16 * x.stride + (out1 ? 16 : x.lanes - 1), 0, 2);
    _mm512_mask_storeu_epi32(out, out0, load_units<Tag, T, W>(source, in0 == 0xffff ? 16 : x.lanes));
    if (out1)
      _mm512_mask_storeu_epi32(out + 16, out1, load_units<Tag, T, W>(source + 16, in1 == 0xffff ? 16 : x.lanes - 16));
  }
}

template <class Tag, class T, class W>
[[gnu::always_inline]] inline void pack_pairs_across_k(const PackArgs& x, const ColumnMasks<Tag>& masks) {
  static_assert(sizeof(W) == 2, "pairs");
  const T* source = static_cast<const T*>(x.source);
  Unit* out = x.out;
  const __m512i low = pair_indices<Tag>();
  const __m512i high = _mm512_add_epi16(low, _mm512_set1_epi16(16));
  const __mmask32 in = masks.in();
  for (Index k = 0; k < x.k; k += 2, source += 2 * x.stride, out += x.width) {
    __builtin_prefetch(source + 16 * x.stride, 0, 3);
    __builtin_prefetch(source + 17 * x.stride, 0, 3);
    const bool pair = k + 1 < x.k;
    const __m512i even = load_shorts<Tag, T, W>(in, source);
    const __m512i odd = load_shorts<Tag, T, W>(pair ? in : 0, source + (pair ? x.stride : 0));
    masks.store(out, _mm512_permutex2var_epi16(even, low, odd), _mm512_permutex2var_epi16(even, high, odd));
  }
}

template <class Tag, class T, class W, int tail>
[[gnu::always_inline]] inline void pack_quads_across_k(const PackArgs& x, const ColumnMasks<Tag>& masks) {
  const T* source = static_cast<const T*>(x.source);
  Unit* out = x.out;
  const __mmask32 in = masks.in();
  __m512i total[2] = {_mm512_setzero_si512(), _mm512_setzero_si512()}, units[2];
  for (Index k = 0; k < x.k; k += 4, source += 4 * x.stride, out += x.width) {
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) __builtin_prefetch(source + (16 + i) * x.stride, 0, 3);
    interleave_quads<Tag, W>(source, x.stride, x.k - k, in, units);
    masks.store(out, units[0], units[1]);
    if constexpr (tail > 0)
      for (int i = 0; i < 2; ++i) total[i] = add_quad_sums<Tag>(total[i], units[i]);
  }
  if constexpr (tail > 0) masks.store(out, negate_lanes<Tag>(total[0]), negate_lanes<Tag>(total[1]));
}

template <class Tag, class T, class W, int tail> void pack_across_k_avx512(const PackArgs& x) {
  const ColumnMasks<Tag> masks(x);
  if constexpr (sizeof(W) == 4)
    pack_words_across_k<Tag, T, W>(x, masks);
  else if constexpr (sizeof(W) == 2)
    pack_pairs_across_k<Tag, T, W>(x, masks);
  else
    pack_quads_across_k<Tag, T, W, tail>(x, masks);
}

template <class Tag, class T, class W, int tail = 0>
inline constexpr Packers packers_avx512{pack_along_k_avx512<Tag, T, W, tail>, pack_across_k_avx512<Tag, T, W, tail>};

}  // namespace ridge::tile::cpu
