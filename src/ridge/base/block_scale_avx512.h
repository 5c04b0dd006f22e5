// Decodes block-scaled elements to bf16 with AVX-512: 32 elements take four instructions between their load and their
// store. The products of e2m1 and any scale are exact in bf16, so a table has them for every scale. e4m3 becomes bf16
// by a shift, and a power of two is added to the exponent; subnormals, NaN and exponents outside of the range, which
// are rare, are decoded one by one. Included by files that are compiled for AVX-512.
#pragma once

#include <immintrin.h>

#include <array>
#include <cstring>
#include <type_traits>

#include "ridge/base/float16.h"
#include "ridge/base/scaled_codes.h"

namespace ridge {
namespace {

constexpr int bf16_mantissa_bits = 7, e4m3_bias = 7;
constexpr std::int64_t prefetch_bytes = 4096;  // prefetch distance, so that memory is read while a core decodes

// Returns an e2m1 element times a scale as bf16. Products have at most six significant bits, so that bf16 is exact.
template <DType dtype> constexpr std::uint16_t scale_e2m1(std::uint32_t code, std::uint8_t scale_code) {
  constexpr std::uint16_t nan = 0x7fc0, infinity = 0x7f80;
  const float scale = decode_scale<dtype>(scale_code);
  if (scale != scale) return nan;
  const double product = static_cast<double>(decode_e2m1(code & 7)) * static_cast<double>(scale);
  const std::uint16_t magnitude =
      product >= 0x1p128
          ? infinity
          : static_cast<std::uint16_t>(__builtin_bit_cast(std::uint32_t, static_cast<float>(product)) >> 16);
  return static_cast<std::uint16_t>(magnitude | (code & 8) << 12);
}
using ScaledE2m1 = std::array<std::uint16_t, 16>;  // the products of one scale, by code
template <DType dtype> alignas(64) inline constexpr std::array<ScaledE2m1, 256> scaled_e2m1 = [] {
  std::array<ScaledE2m1, 256> out{};
  for (std::uint32_t scale = 0; scale < 256; ++scale)
    for (std::uint32_t code = 0; code < 16; ++code)
      out[scale][code] = scale_e2m1<dtype>(code, static_cast<std::uint8_t>(scale));
  return out;
}();

// Returns the table's entry for each of 32 codes in 16 bytes. The lowest four bits of each of 32 words are a code. The
// permutation selects by five bits, of which the fifth is arbitrary, so both halves of the table are the same 16
// entries.
[[gnu::always_inline]] inline __m512i look_up_codes(const std::uint8_t* from, __m512i table) {
  const __m512i pairs = _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
  return _mm512_permutexvar_epi16(_mm512_or_si512(pairs, _mm512_slli_epi32(pairs, 12)), table);
}
[[gnu::always_inline]] inline __m512i decode_mxfp4_block(const std::uint8_t* block) {
  const auto* table = reinterpret_cast<const __m256i*>(scaled_e2m1<DType::mxfp4>[*block].data());
  return look_up_codes(block + 1, _mm512_broadcast_i64x4(_mm256_load_si256(table)));
}
[[gnu::always_inline]] inline __m256i decode_nvfp4_block(const std::uint8_t* block) {
  const __m256i pairs = _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(block + 1)));
  const __m256i codes = _mm256_or_si256(pairs, _mm256_slli_epi32(pairs, 12));
  const auto* table = reinterpret_cast<const __m256i*>(scaled_e2m1<DType::nvfp4>[*block].data());
  return _mm256_permutexvar_epi16(codes, _mm256_load_si256(table));
}

[[gnu::always_inline]] inline __m512i broadcast_word(int x) { return _mm512_set1_epi16(static_cast<short>(x)); }

// Returns 32 e4m3 elements times the scale, rounded to bf16. The loop is not vectorized, so that it needs few
// registers: the sums of callers stay in the others during this rare case.
[[gnu::always_inline]] inline __m512i round_e4m3_codes(const std::uint8_t* codes, float scale) {
  alignas(64) Bf16 out[32];
#pragma GCC unroll 1
  for (int i = 0; i < 32; ++i) {
    std::uint32_t code = codes[i];
    asm("" : "+r"(code));
    out[i] = to_bf16(decode_e4m3(code) * scale);
  }
  return _mm512_load_si512(out);
}
// The product of a normal e4m3 and a scale in this range is a normal bf16. A scale is 2^(scale_code - 127).
constexpr std::uint8_t min_scale_code = 7, unit_scale_code = 127, max_scale_code = 246;
// Returns 32 e4m3 elements times the scale as bf16.
[[gnu::always_inline]] inline __m512i decode_e4m3_codes(const std::uint8_t* from, std::uint8_t scale_code) {
  const __m256i codes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
  const __m256i magnitude = _mm256_and_si256(codes, _mm256_set1_epi8(0x7f));
  const __mmask32 nonzero = _mm256_test_epi8_mask(magnitude, magnitude);
  const __mmask32 subnormal_or_nan =
      _mm256_mask_cmpge_epu8_mask(nonzero, _mm256_sub_epi8(magnitude, _mm256_set1_epi8(8)), _mm256_set1_epi8(0x7f - 8));
  if (subnormal_or_nan != 0 || scale_code < min_scale_code || scale_code > max_scale_code) [[unlikely]]
    return round_e4m3_codes(from, decode_scale<DType::mxfp8>(scale_code));
  const __m512i sign_and_magnitude =
      _mm512_and_si512(_mm512_slli_epi16(_mm512_cvtepi8_epi16(codes), 4), broadcast_word(0x87f0));
  return _mm512_mask_add_epi16(sign_and_magnitude, nonzero, sign_and_magnitude,
                               broadcast_word((scale_code - e4m3_bias) << bf16_mantissa_bits));
}

[[gnu::always_inline]] inline __m512 widen_words(__m256i words) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(words), 16));
}
[[gnu::always_inline]] inline void store_words(__m512i words, Bf16* to) { _mm512_storeu_si512(to, words); }
[[gnu::always_inline]] inline void store_words(__m256i words, Bf16* to) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), words);
}
[[gnu::always_inline]] inline void store_words(__m256i words, float* to, float scale = 1) {
  _mm512_storeu_ps(to, _mm512_mul_ps(widen_words(words), _mm512_set1_ps(scale)));
}
[[gnu::always_inline]] inline void store_words(__m512i words, float* to, float scale = 1) {
  store_words(_mm512_castsi512_si256(words), to, scale);
  store_words(_mm512_extracti64x4_epi64(words, 1), to + 16, scale);
}
[[gnu::always_inline]] inline void prefetch_blocks(const std::uint8_t* from) {
  _mm_prefetch(reinterpret_cast<const char*>(from) + prefetch_bytes, _MM_HINT_T0);
}

// Returns the 32 elements at `from` as bf16. If `is_half`, they are the last block of a line of nvfp4: 16, then zeros.
template <DType dtype>
[[gnu::always_inline]] inline __m512i decode_32_elements(const std::uint8_t* from, bool is_half) {
  if constexpr (dtype == DType::mxfp8) return decode_e4m3_codes(from + 1, *from);
  if constexpr (dtype == DType::mxfp4) return decode_mxfp4_block(from);
  const __m512i first = _mm512_zextsi256_si512(decode_nvfp4_block(from));
  return is_half ? first : _mm512_inserti64x4(first, decode_nvfp4_block(from + 9), 1);
}

// Returns the scale of an mxfp8 or e4m3_128 block.
template <DType dtype> [[gnu::always_inline]] inline float load_scale(const std::uint8_t* block) {
  if constexpr (dtype == DType::mxfp8) return decode_scale<dtype>(*block);
  float scale = 0;
  std::memcpy(&scale, block, sizeof scale);
  return scale;
}

// Scale and zero point of a block of int4 or u4. With the sign bit inverted, the codes of int4 are the value plus 8.
struct ScaleWithZero {
  float scale;
  int zero;
};
template <DType dtype> [[gnu::always_inline]] inline ScaleWithZero load_scale_with_zero(const std::uint8_t* block) {
  F16 scale{};
  std::memcpy(&scale, block, sizeof scale);
  return {to_float(scale), has_zero_points(dtype) ? block[2] & max_zero_point : 8};
}
// Returns a number for each code: that of lane i is of code i.
template <DType dtype> [[gnu::always_inline]] inline __m512i list_codes() {
  const __m512i all = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  return has_zero_points(dtype) ? all : _mm512_xor_si512(all, _mm512_set1_epi32(8));
}
// Decodes a block of int4 or u4 to f32. A table has the value of each code, since a block has at least 32 elements.
template <DType dtype> void decode_integer_block(const std::uint8_t* from, float* to) {
  constexpr int elements = dtype_info(dtype).block, scale_bytes = dtype_info(dtype).scale_bits / 8;
  const ScaleWithZero scale = load_scale_with_zero<dtype>(from);
  const __m512i differences = _mm512_sub_epi32(list_codes<dtype>(), _mm512_set1_epi32(scale.zero));
  const __m512 values = _mm512_mul_ps(_mm512_cvtepi32_ps(differences), _mm512_set1_ps(scale.scale));
  const __m128i low_bits = _mm_set1_epi8(0xf);
  for (int k = 0; k < elements; k += 32) {
    const __m128i pairs = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + scale_bytes + k / 2)),
                  even = _mm_and_si128(pairs, low_bits), odd = _mm_and_si128(_mm_srli_epi16(pairs, 4), low_bits);
    const __m512i first = _mm512_cvtepu8_epi32(_mm_unpacklo_epi8(even, odd)),
                  second = _mm512_cvtepu8_epi32(_mm_unpackhi_epi8(even, odd));
    _mm512_storeu_ps(to + k, _mm512_permutexvar_ps(first, values));
    _mm512_storeu_ps(to + k + 16, _mm512_permutexvar_ps(second, values));
  }
}

// The bf16 of a code of 4 bits minus a zero point, by zero point and code. They are exact: integers from -127 to 15.
using IntegerWords = std::array<std::uint16_t, 16>;
alignas(64) inline constexpr std::array<IntegerWords, max_zero_point + 1> code_differences = [] {
  std::array<IntegerWords, max_zero_point + 1> out{};
  for (int zero = 0; zero <= max_zero_point; ++zero)
    for (int code = 0; code < 16; ++code) out[zero][code] = to_bf16(static_cast<float>(code - zero)).bits;
  return out;
}();
// Returns the values of the codes of a block, divided by its scale, twice. Codes of int4 are two's complement, so that
// those from 8 on have the values from -8 on.
template <DType dtype> [[gnu::always_inline]] inline __m512i load_integer_words(const std::uint8_t* block) {
  if constexpr (has_zero_points(dtype)) {
    const IntegerWords& words = code_differences[block[2] & max_zero_point];
    return _mm512_broadcast_i64x4(_mm256_load_si256(reinterpret_cast<const __m256i*>(words.data())));
  } else {
    const IntegerWords& words = code_differences[8];
    const __m256i x = _mm256_load_si256(reinterpret_cast<const __m256i*>(words.data()));
    return _mm512_broadcast_i64x4(_mm256_permute4x64_epi64(x, 0x4e));
  }
}
// Returns the f16 scale of a block of int4 or u4 in all lanes.
[[gnu::always_inline]] inline __m512 broadcast_f16_scale(const std::uint8_t* block) {
  short bits = 0;
  std::memcpy(&bits, block, sizeof bits);
  return _mm512_cvtph_ps(_mm256_set1_epi16(bits));
}

// Decodes contiguous blocks to f32 or bf16 (`is_decoded_exactly`).
template <DType dtype, class T> void decode_blocks(const std::uint8_t* from, std::int64_t blocks, T* to) {
  constexpr std::int64_t elements = dtype_info(dtype).block, bytes = scale_block_bits(dtype).bits / 8;
  for (std::int64_t i = 0; i < blocks; ++i, from += bytes, to += elements) {
    prefetch_blocks(from);
    if constexpr (has_integer_blocks(dtype)) {
      if (bytes > 64) prefetch_blocks(from + 64);
      decode_integer_block<dtype>(from, to);
    } else if constexpr (dtype == DType::nvfp4) {
      store_words(decode_nvfp4_block(from), to);
    } else if constexpr (dtype == DType::mxfp4 || std::is_same_v<T, Bf16>) {
      store_words(decode_32_elements<dtype>(from, false), to);
    } else {  // bf16 represents e4m3 exactly, and the scale is applied in f32
      if (elements > 64) prefetch_blocks(from + 64);
      for (int k = 0; k < elements; k += 32)
        store_words(decode_e4m3_codes(from + bytes - elements + k, unit_scale_code), to + k, load_scale<dtype>(from));
    }
  }
}
// True if `decode_blocks` supports these types: f16, and bf16 from scales of 16 or 32 bits, would need rounding.
template <DType dtype, class T>
inline constexpr bool is_decoded_exactly = std::is_same_v<T, float> ||
                                           (std::is_same_v<T, Bf16> && dtype_info(dtype).scale_bits == 8);

}  // namespace
}  // namespace ridge
