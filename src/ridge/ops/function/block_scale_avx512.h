// Decodes block-scaled elements to bf16 with AVX-512: 32 elements take eight (e2m1) to sixteen (e4m3) instructions. The
// products of e2m1 with any scale are exact in bf16, so a table of the sixteen values times the scale has every element
// of a block. e4m3 becomes bf16 by a shift, and a power of two is added to the exponent; blocks for which that is not
// exact are left to the caller. Included by block_scale_body.cc.
#pragma once

#include <immintrin.h>

#include <array>
#include <type_traits>

#include "ridge/base/float16.h"
#include "ridge/ops/function/scaled_codes.h"

namespace ridge::ops {
namespace {

template <DType dtype> inline constexpr std::array<float, 256> scales_of_codes = [] {
  std::array<float, 256> out{};
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = decode_scale<dtype>(static_cast<std::uint8_t>(i));
  return out;
}();

// Returns the bf16 of the sixteen e2m1 times the scale.
template <DType dtype> [[gnu::always_inline]] inline __m256i scale_e2m1_table(std::uint8_t scale_code) {
  const __m512 values = _mm512_setr_ps(0, 0.5F, 1, 1.5F, 2, 3, 4, 6, -0.0F, -0.5F, -1, -1.5F, -2, -3, -4, -6);
  const __m512 scaled = _mm512_mul_ps(values, _mm512_set1_ps(scales_of_codes<dtype>[scale_code]));
  return _mm512_cvtepi32_epi16(_mm512_srli_epi32(_mm512_castps_si512(scaled), 16));
}
// Returns 32 words; each has the code of one element in its lowest four bits, and others above.
[[gnu::always_inline]] inline __m512i spread_e2m1_codes(__m128i pairs) {
  const __m512i wide = _mm512_cvtepu8_epi32(pairs);
  return _mm512_or_si512(wide, _mm512_slli_epi32(wide, 12));
}
[[gnu::always_inline]] inline __m512i decode_mxfp4_block(const std::uint8_t* block) {
  const __m512i table = _mm512_broadcast_i64x4(scale_e2m1_table<DType::mxfp4>(*block));
  const __m128i pairs = _mm_loadu_si128(reinterpret_cast<const __m128i*>(block + 1));
  return _mm512_permutexvar_epi16(spread_e2m1_codes(pairs), table);  // uses five bits; both halves of the table agree
}
// Decodes two blocks; the second is at `other`.
[[gnu::always_inline]] inline __m512i decode_nvfp4_blocks(const std::uint8_t* block, const std::uint8_t* other) {
  const __m512i table = _mm512_inserti64x4(_mm512_castsi256_si512(scale_e2m1_table<DType::nvfp4>(*block)),
                                           scale_e2m1_table<DType::nvfp4>(*other), 1);
  const __m128i pairs = _mm_unpacklo_epi64(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(block + 1)),
                                           _mm_loadl_epi64(reinterpret_cast<const __m128i*>(other + 1)));
  const __m512i codes = _mm512_and_si512(spread_e2m1_codes(pairs), _mm512_set1_epi16(15));
  const __m512i upper_half = _mm512_inserti64x4(_mm512_setzero_si512(), _mm256_set1_epi16(16), 1);
  return _mm512_permutexvar_epi16(_mm512_or_si512(codes, upper_half), table);
}

// Returns 32 e4m3 times 2^exponent, -124 <= exponent <= 119: the smallest and the largest code are exact bf16.
[[gnu::always_inline]] inline __m512i decode_e4m3_codes(const std::uint8_t* codes, int exponent) {
  constexpr int bf16_mantissa_bits = 7, bias_difference = 127 - 7;
  const auto all = [](int x) __attribute__((always_inline)) { return _mm512_set1_epi16(static_cast<short>(x)); };
  alignas(64) static constexpr std::array<std::uint16_t, 32> small_values = {
      0, 0x3b00, 0x3b80, 0x3bc0, 0x3c00, 0x3c20, 0x3c40, 0x3c60};  // bf16 of the subnormal e4m3, multiples of 2^-9
  constexpr __mmask32 nonzero_values = 0xfe;
  const __m512i unscaled = _mm512_load_si512(small_values.data());
  const __m512i small = _mm512_mask_add_epi16(unscaled, nonzero_values, unscaled, all(exponent << bf16_mantissa_bits));
  const __m512i code = _mm512_cvtepu8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(codes)));
  const __m512i magnitude = _mm512_and_si512(_mm512_slli_epi16(code, 4), all(0x7f0));
  const __mmask32 is_small = _mm512_testn_epi16_mask(code, all(0x78)), is_nan = _mm512_cmpeq_epi16_mask(magnitude, all(0x7f0));
  __m512i bits = _mm512_add_epi16(magnitude, all((exponent + bias_difference) << bf16_mantissa_bits));
  bits = _mm512_mask_permutexvar_epi16(bits, is_small, code, small);
  bits = _mm512_mask_mov_epi16(bits, is_nan, all(0x7fc0));
  return _mm512_or_si512(bits, _mm512_and_si512(_mm512_slli_epi16(code, 8), all(0x8000)));
}

[[gnu::always_inline]] inline void store_words(__m512i words, Bf16* to) { _mm512_storeu_si512(to, words); }
[[gnu::always_inline]] inline void store_words(__m512i words, float* to, float scale = 1) {
  const auto widen = [&](__m256i half) __attribute__((always_inline)) {
    return _mm512_mul_ps(_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16)), _mm512_set1_ps(scale));
  };
  _mm512_storeu_ps(to, widen(_mm512_castsi512_si256(words)));
  _mm512_storeu_ps(to + 16, widen(_mm512_extracti64x4_epi64(words, 1)));
}

// Decodes blocks from the first one on, and returns their number: all of `blocks`, or those before the first one that
// needs another way.
template <DType dtype, class T>
std::int64_t decode_leading_blocks(const std::uint8_t* from, std::int64_t blocks, T* to) {
  std::int64_t i = 0;
  if constexpr (std::is_same_v<T, F16>) {
    return 0;
  } else if constexpr (dtype == DType::mxfp4) {
    for (; i < blocks; ++i, from += 17, to += 32) store_words(decode_mxfp4_block(from), to);
  } else if constexpr (dtype == DType::nvfp4) {
    for (; i + 2 <= blocks; i += 2, from += 18, to += 32) store_words(decode_nvfp4_blocks(from, from + 9), to);
  } else if constexpr (dtype == DType::mxfp8) {
    for (; i < blocks && *from >= 3 && *from <= 246; ++i, from += 33, to += 32)
      store_words(decode_e4m3_codes(from + 1, *from - 127), to);
  } else if constexpr (std::is_same_v<T, float>) {
    for (; i < blocks; ++i, from += 132, to += 128) {
      float scale = 0;
      std::memcpy(&scale, from, sizeof scale);
      for (int k = 0; k < 128; k += 32) store_words(decode_e4m3_codes(from + 4 + k, 0), to + k, scale);
    }
  }
  return i;
}

}  // namespace
}  // namespace ridge::ops
