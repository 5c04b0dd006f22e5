// Packing for AMX tiles. A left panel is [blocks of 16 units][rows][16 units], so that a tile is 16 contiguous cache
// lines; a right panel is [steps][32] as for other instruction sets. Both are padded with zeros to full blocks. W is
// the element type in the panel, T the element type in memory. Tag is a type of an unnamed namespace: see block.h.
#pragma once

#include "ridge/tile/cpu/pack_avx512.h"

namespace ridge::tile::cpu {

template <class W> inline constexpr int elements_per_unit = sizeof(Unit) / sizeof(W);

// Loads one unit of each of 16 contiguous lanes for one step of k; the first `left` elements of k exist.
template <class Tag, class T, class W>
[[gnu::always_inline]] inline __m512i load_tile_units(const T* p, Index stride, Index left, int lanes) {
  const __mmask16 in = first_lanes_mask<Tag>(lanes);
  if constexpr (sizeof(W) == 1) {
    __m128i rows[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i)
      rows[i] = _mm_maskz_loadu_epi8(left > i ? in : __mmask16{0}, p + (left > i ? i * stride : 0));
    const __m128i low[2] = {_mm_unpacklo_epi8(rows[0], rows[1]), _mm_unpacklo_epi8(rows[2], rows[3])};
    const __m128i high[2] = {_mm_unpackhi_epi8(rows[0], rows[1]), _mm_unpackhi_epi8(rows[2], rows[3])};
    __m512i all = _mm512_castsi128_si512(_mm_unpacklo_epi16(low[0], low[1]));
    all = _mm512_inserti32x4(all, _mm_unpackhi_epi16(low[0], low[1]), 1);
    all = _mm512_inserti32x4(all, _mm_unpacklo_epi16(high[0], high[1]), 2);
    return _mm512_inserti32x4(all, _mm_unpackhi_epi16(high[0], high[1]), 3);
  } else {
    static_assert(sizeof(W) == 2, "pairs or quads");
    const __m512i even = load_shorts<Tag, T, W>(left > 0 ? in : __mmask16{0}, p);
    const __m512i odd = load_shorts<Tag, T, W>(left > 1 ? in : __mmask16{0}, p + (left > 1 ? stride : 0));
    return _mm512_permutex2var_epi16(even, pair_indices<Tag>(), odd);
  }
}

template <class Tag, class T, class W> void pack_left_along_k(const PackArgs& x) {
  constexpr Index k_step = 16 * elements_per_unit<W>;
  for (int lane = 0; lane < x.width; ++lane) {
    const T* const source = static_cast<const T*>(x.source) + lane * x.stride;
    Unit* out = x.out + lane * 16;
    for (Index k = 0; k < x.k; k += k_step, out += x.width * 16) {
      __builtin_prefetch(source + x.stride + k, 0, 3);
      const __m512i units = lane < x.lanes ? load_units<Tag, T, W>(source + k, x.k - k) : _mm512_setzero_si512();
      _mm512_storeu_si512(out, units);
    }
  }
}

template <class Tag, class T, class W> void pack_left_across_k(const PackArgs& x) {
  constexpr Index k_step = 16 * elements_per_unit<W>;
  for (Index k = 0; k < x.k; k += k_step) {
    for (int lane = 0; lane < x.width; lane += 16) {
      const T* const source = static_cast<const T*>(x.source) + k * x.stride + lane;
      __m512i r[16];
#pragma GCC unroll 16
      for (int i = 0; i < 16; ++i) {
        const Index from = i * elements_per_unit<W>, left = x.k - k - from;
        r[i] = load_tile_units<Tag, T, W>(source + (left > 0 ? from * x.stride : 0), x.stride, left, x.lanes - lane);
      }
      transpose_16x16<Tag>(r);
      Unit* const out = x.out + k / elements_per_unit<W> * x.width + lane * 16;
#pragma GCC unroll 16
      for (int i = 0; i < 16; ++i)
        if (lane + i < x.width) _mm512_storeu_si512(out + i * 16, r[i]);
    }
  }
}

// Packs [steps][width] for any width, 16 lanes at a time.
template <class Tag, class T, class W> void pack_steps_along_k(const PackArgs& x) {
  constexpr Index k_step = 16 * elements_per_unit<W>;
  for (int lane = 0; lane < x.width; lane += 16) {
    const T* const source = static_cast<const T*>(x.source) + lane * x.stride;
    const int lanes = x.lanes - lane;
    for (Index k = 0; k < x.k; k += k_step) {
      __m512i r[16];
#pragma GCC unroll 16
      for (int i = 0; i < 16; ++i) {
        if (i < lanes) __builtin_prefetch(reinterpret_cast<const char*>(source + i * x.stride + k) + 256, 0, 3);
        r[i] = i < lanes ? load_units<Tag, T, W>(source + i * x.stride + k, x.k - k) : _mm512_setzero_si512();
      }
      transpose_16x16<Tag>(r);
      Unit* const out = x.out + k / elements_per_unit<W> * x.width + lane;
      const __mmask16 stored = first_lanes_mask<Tag>(x.width - lane);
#pragma GCC unroll 16
      for (int i = 0; i < 16; ++i) _mm512_mask_storeu_epi32(out + i * x.width, stored, r[i]);
    }
  }
}

// Interleaves two full rows of 32 bf16 to two lines of pairs. Prefetches the rows that `pack_right` packs next.
template <class Tag> [[gnu::always_inline]] inline void pack_pair_of_lines(const void* rows, Index stride, Unit* out) {
  const auto* const even = static_cast<const Bf16*>(rows);
  __builtin_prefetch(even + 32 * stride, 0, 2);
  __builtin_prefetch(even + 33 * stride, 0, 2);
  const __m512i a = _mm512_loadu_si512(even), b = _mm512_loadu_si512(even + stride);
  const __m512i low = pair_indices<Tag>(), high = _mm512_add_epi16(low, _mm512_set1_epi16(16));
  _mm512_storeu_si512(out, _mm512_permutex2var_epi16(a, low, b));
  _mm512_storeu_si512(out + 16, _mm512_permutex2var_epi16(a, high, b));
}

// Interleaves four full rows of 32 int8 to two lines of quads.
template <class Tag> [[gnu::always_inline]] inline void pack_quad_of_lines(const void* rows, Index stride, Unit* out) {
  const auto* const first = static_cast<const std::int8_t*>(rows);
  __m256i r[4];
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    __builtin_prefetch(first + (64 + i) * stride, 0, 2);
    r[i] = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(first + i * stride));
  }
  // Returns pairs of bytes of columns 0 … 7 and 16 … 23, then of 8 … 15 and 24 … 31.
  const auto pairs = [](__m256i even, __m256i odd) __attribute__((always_inline)) {
    return _mm512_inserti64x4(_mm512_castsi256_si512(_mm256_unpacklo_epi8(even, odd)), _mm256_unpackhi_epi8(even, odd),
                              1);
  };
  const __m512i a = pairs(r[0], r[1]), b = pairs(r[2], r[3]);
  const __m512i low = _mm512_set_epi16(55, 23, 54, 22, 53, 21, 52, 20, 51, 19, 50, 18, 49, 17, 48, 16, 39, 7, 38, 6, 37,
                                       5, 36, 4, 35, 3, 34, 2, 33, 1, 32, 0);
  const __m512i high = _mm512_add_epi16(low, _mm512_set1_epi16(8));
  _mm512_storeu_si512(out, _mm512_permutex2var_epi16(a, low, b));
  _mm512_storeu_si512(out + 16, _mm512_permutex2var_epi16(a, high, b));
}

template <class Tag, class T, class W> void pack_steps_across_k(const PackArgs& x) {
  constexpr Index k_step = 16 * elements_per_unit<W>;
  const Index padded_k = (x.k + k_step - 1) / k_step * k_step;
  const T* source = static_cast<const T*>(x.source);
  Unit* out = x.out;
  Index k = 0;
  if constexpr (sizeof(T) == sizeof(W))
    if (x.lanes == 32 && x.width == 32)
      for (; k + elements_per_unit<W> <= x.k; k += elements_per_unit<W>, out += 32)
        (sizeof(W) == 2 ? pack_pair_of_lines<Tag> : pack_quad_of_lines<Tag>)(source + k * x.stride, x.stride, out);
  for (; k < padded_k; k += elements_per_unit<W>, out += x.width) {
    const Index left = x.k - k;
    const T* const from = source + (left > 0 ? k * x.stride : 0);
    for (int i = 0; i < elements_per_unit<W>; ++i) __builtin_prefetch(from + (k_step + i) * x.stride, 0, 2);
    for (int lane = 0; lane < x.width; lane += 16)
      _mm512_mask_storeu_epi32(
          out + lane, first_lanes_mask<Tag>(x.width - lane),
          load_tile_units<Tag, T, W>(from + (lane < x.lanes ? lane : 0), x.stride, left, x.lanes - lane));
  }
}

template <class Tag, class T, class W>
inline constexpr Packers left_packers_amx{pack_left_along_k<Tag, T, W>, pack_left_across_k<Tag, T, W>};
template <class Tag, class T, class W>
inline constexpr Packers right_packers_amx{pack_steps_along_k<Tag, T, W>, pack_steps_across_k<Tag, T, W>};

}  // namespace ridge::tile::cpu
