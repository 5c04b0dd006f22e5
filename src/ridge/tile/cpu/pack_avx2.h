// Packing with AVX2 and F16C, 8 x 8 units at a time; a unit is an f32 or a pair of int16. T is the element type
// in memory. Tag is a type of an unnamed namespace: see block.h.
#pragma once

#include <immintrin.h>

#include "ridge/base/float16.h"
#include "ridge/tile/cpu/pack.h"

namespace ridge::tile::cpu {

template <class Tag> [[gnu::always_inline]] inline __m256i first_lanes_mask8(Index n) {
  const int lanes = n > 8 ? 8 : static_cast<int>(n);
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(lanes), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

// Stores the first n lanes without a masked store, which takes forty micro-operations on some cores.
template <class Tag> [[gnu::always_inline]] inline void store_first_lanes(float* p, __m256 x, int n) {
  if (n >= 8) return _mm256_storeu_ps(p, x);
  __m128 part = _mm256_castps256_ps128(x);
  if (n & 4) {
    _mm_storeu_ps(p, part);
    part = _mm256_extractf128_ps(x, 1);
    p += 4;
  }
  if (n & 2) {
    _mm_storel_pi(reinterpret_cast<__m64*>(p), part);
    part = _mm_movehl_ps(part, part);
    p += 2;
  }
  if (n & 1) _mm_store_ss(p, part);
}

// Returns eight contiguous elements as f32, which represents them exactly.
template <class Tag, class T> [[gnu::always_inline]] inline __m256 load_widened(const T* p) {
  if constexpr (sizeof(T) == 4) {
    return _mm256_loadu_ps(reinterpret_cast<const float*>(p));
  } else if constexpr (sizeof(T) == 1) {
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
  } else {
    const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    if constexpr (__is_same(T, Bf16))
      return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
    else
      return _mm256_cvtph_ps(bits);
  }
}
// Returns the first `left` of eight contiguous elements as f32; the others are 0.
template <class Tag, class T> [[gnu::always_inline]] inline __m256 load_widened(const T* p, Index left) {
  if (left >= 8) return load_widened<Tag>(p);
  if constexpr (sizeof(T) == 4) {
    return _mm256_maskload_ps(reinterpret_cast<const float*>(p), first_lanes_mask8<Tag>(left));
  } else {
    T buffer[8] = {};
    __builtin_memcpy(buffer, p, static_cast<std::size_t>(left) * sizeof(T));  // p may be unaligned
    return load_widened<Tag>(buffer);
  }
}

// A unit of two int8, adjacent along k and widened to int16, so that no product of vpmaddwd overflows.
struct PairOfInt8 {};

// Loads eight units of T, contiguous along k, into a register.
template <class T> struct PackedUnits8 {
  using Element = T;
  static constexpr int per_unit = 1;
  template <class Tag> [[gnu::always_inline]] static __m256 load(const T* p) { return load_widened<Tag>(p); }
  template <class Tag> [[gnu::always_inline]] static __m256 load(const T* p, Index left) {
    return load_widened<Tag>(p, left);
  }
};
template <> struct PackedUnits8<PairOfInt8> {
  using Element = std::int8_t;
  static constexpr int per_unit = 2;
  template <class Tag> [[gnu::always_inline]] static __m256 load(const std::int8_t* p) {
    return _mm256_castsi256_ps(_mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
  }
  template <class Tag> [[gnu::always_inline]] static __m256 load(const std::int8_t* p, Index left) {
    if (left >= 16) return load<Tag>(p);
    std::int8_t buffer[16] = {};
    __builtin_memcpy(buffer, p, static_cast<std::size_t>(left));
    return load<Tag>(buffer);
  }
};

template <class Tag> [[gnu::always_inline]] inline void transpose_8x8(__m256 (&r)[8]) {
  __m256 t[8];
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    t[2 * i] = _mm256_unpacklo_ps(r[2 * i], r[2 * i + 1]);
    t[2 * i + 1] = _mm256_unpackhi_ps(r[2 * i], r[2 * i + 1]);
  }
#pragma GCC unroll 2
  for (int i = 0; i < 8; i += 4) {
    r[i] = _mm256_shuffle_ps(t[i], t[i + 2], 0x44);
    r[i + 1] = _mm256_shuffle_ps(t[i], t[i + 2], 0xee);
    r[i + 2] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0x44);
    r[i + 3] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0xee);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    t[i] = _mm256_permute2f128_ps(r[i], r[4 + i], 0x20);
    t[4 + i] = _mm256_permute2f128_ps(r[i], r[4 + i], 0x31);
  }
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) r[i] = t[i];
}

// Stores the first `steps` of eight transposed registers, `width` units apart; each has `lanes` units.
template <class Tag> [[gnu::always_inline]] inline void store_8_steps(float* out, Index width, Index steps, int lanes,
                                                                      const __m256 (&r)[8]) {
  if (steps >= 8 && lanes >= 8) {
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) _mm256_storeu_ps(out + i * width, r[i]);
  } else if (steps >= 8 && lanes == 6) {
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) store_first_lanes<Tag>(out + i * width, r[i], 6);
  } else {
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i)
      if (i < steps) store_first_lanes<Tag>(out + i * width, r[i], lanes);
  }
}

template <class Tag, class T> void pack_along_k_avx2(const PackArgs& x) {
  using Units = PackedUnits8<T>;
  using Element = typename Units::Element;
  constexpr int per_unit = Units::per_unit, k_step = 8 * per_unit;
  const Index units = (x.k + per_unit - 1) / per_unit;
  if (x.width == 1) {  // a single row needs no transposition
    for (Index k = 0, step = 0; step < units; k += k_step, step += 8)
      store_first_lanes<Tag>(reinterpret_cast<float*>(x.out) + step,
                             Units::template load<Tag>(static_cast<const Element*>(x.source) + k, x.k - k),
                             units - step < 8 ? static_cast<int>(units - step) : 8);
    return;
  }
  for (int lane = 0; lane < x.width; lane += 8) {
    const Element* const source = static_cast<const Element*>(x.source) + lane * x.stride;
    const int lanes = x.lanes - lane, wide = x.width - lane;
    for (Index k = 0, step = 0; step < units; k += k_step, step += 8) {
      __m256 r[8];
      for (int i = 0; i < (lanes < 8 ? lanes : 8); ++i)  // prefetches four lines in advance, to the L2,
        __builtin_prefetch(reinterpret_cast<const char*>(source + i * x.stride + k) + 256, 0, 2);  // not the L1
      if (lanes >= 8 && k + k_step <= x.k) {
#pragma GCC unroll 8
        for (int i = 0; i < 8; ++i) r[i] = Units::template load<Tag>(source + i * x.stride + k);
      } else {
#pragma GCC unroll 8
        for (int i = 0; i < 8; ++i)
          r[i] = i < lanes ? Units::template load<Tag>(source + i * x.stride + k, x.k - k) : _mm256_setzero_ps();
      }
      transpose_8x8<Tag>(r);
      store_8_steps<Tag>(reinterpret_cast<float*>(x.out) + step * x.width + lane, x.width, units - step, wide, r);
    }
  }
}

// Copies the transpose of up to eight rows of sums, eight columns at a time.
template <class Tag> void transpose_sums_avx2(const TransposeArgs& x) {
  float* c = x.c;
  for (Index column = 0; column < x.columns; column += 8, c += 8 * x.c_stride) {
    const Index left = x.columns - column;
    __m256 r[8];
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i)
      r[i] = i < x.rows ? load_widened<Tag>(x.sums + column + i * x.stride, left) : _mm256_setzero_ps();
    transpose_8x8<Tag>(r);
    store_8_steps<Tag>(c, x.c_stride, left, x.rows, r);
  }
}

// Returns the first `count` of sixteen bytes at any address; the others are 0.
template <class Tag> [[gnu::always_inline]] inline __m128i load_first_bytes(const std::int8_t* p, int count) {
  if (count >= 16) return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  std::int8_t buffer[16] = {};
  __builtin_memcpy(buffer, p, static_cast<std::size_t>(count));
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(buffer));
}

// Interleaves the bytes of two rows of k, then widens them to int16.
template <class Tag> void pack_pairs_across_k_avx2(const PackArgs& x) {
  const std::int8_t* source = static_cast<const std::int8_t*>(x.source);
  float* out = reinterpret_cast<float*>(x.out);
  for (Index k = 0; k < x.k; k += 2, source += 2 * x.stride, out += x.width) {
    const __m128i first = load_first_bytes<Tag>(source, x.lanes);
    const __m128i second = k + 1 < x.k ? load_first_bytes<Tag>(source + x.stride, x.lanes) : _mm_setzero_si128();
    const __m128i halves[2] = {_mm_unpacklo_epi8(first, second), _mm_unpackhi_epi8(first, second)};
    for (int lane = 0; lane < x.width; lane += 8)
      store_first_lanes<Tag>(out + lane, _mm256_castsi256_ps(_mm256_cvtepi8_epi16(halves[lane / 8])), x.width - lane);
  }
}

template <class Tag, class T> void pack_across_k_avx2(const PackArgs& x) {
  const T* source = static_cast<const T*>(x.source);
  float* out = reinterpret_cast<float*>(x.out);
  for (Index k = 0; k < x.k; ++k, source += x.stride, out += x.width) {
    __builtin_prefetch(source + 12 * x.stride, 0, 3);
    if (x.lanes == 16) {
      _mm256_storeu_ps(out, load_widened<Tag>(source));
      _mm256_storeu_ps(out + 8, load_widened<Tag>(source + 8));
      continue;
    }
    for (int lane = 0; lane < x.width; lane += 8)
      store_first_lanes<Tag>(out + lane,
                             lane < x.lanes ? load_widened<Tag>(source + lane, x.lanes - lane) : _mm256_setzero_ps(),
                             x.width - lane);
  }
}

template <class Tag, class T>
inline constexpr Packers packers_avx2{pack_along_k_avx2<Tag, T>, pack_across_k_avx2<Tag, T>};
// For panels of A, which are narrow, packing element by element is as fast as with vectors.
template <class Tag> inline constexpr Packers left_pairs_avx2{pack_along_k_avx2<Tag, PairOfInt8>,
                                                              pack_across_k<Tag, std::int8_t, std::int16_t>};
template <class Tag>
inline constexpr Packers right_pairs_avx2{pack_along_k_avx2<Tag, PairOfInt8>, pack_pairs_across_k_avx2<Tag>};

}  // namespace ridge::tile::cpu
