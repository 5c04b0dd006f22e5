// Codes of the elements and scales of block-scaled dtypes, on CPUs and on devices. Codes and values are the same as
// those of base/block_scale.h: a quotient that is rounded before it becomes a code could differ only if it were rounded
// to a tie between two codes. Products with a power of two are exact, quotients of an f32 by an e4m3 are too far from
// ties, and quotients by an f32 are computed in f64. Compiles under nvcc.
#pragma once

#include <algorithm>
#include <cstdint>

#include "ridge/base/dtype.h"
#include "ridge/base/float16.h"

namespace ridge {

// A code is a sign, an exponent and a mantissa; the exponents of its values begin at `min_exponent`.
struct CodeFormat {
  int mantissa_bits, min_exponent, max_code, sign_shift;
  float limit;  // Values of this magnitude and above have codes above `max_code`.
};
inline constexpr CodeFormat e4m3_codes{3, -6, 0x7e, 7, 512}, e2m1_codes{1, 0, 7, 3, 8};

template <DType dtype> inline constexpr CodeFormat element_codes = dtype_info(dtype).bits == 4 ? e2m1_codes
                                                                                               : e4m3_codes;
template <DType dtype> inline constexpr bool has_power_scale = dtype == DType::mxfp8 || dtype == DType::mxfp4;

template <CodeFormat format> [[gnu::always_inline]] constexpr std::uint32_t encode(float x) {
  const auto bits = __builtin_bit_cast(std::uint32_t, x);
  const std::uint32_t magnitude_bits = bits & INT32_MAX;
  const auto magnitude = __builtin_bit_cast(float, magnitude_bits);
  const float limited = magnitude < format.limit ? magnitude : format.limit;
  const std::int32_t exponent =
      std::max(static_cast<std::int32_t>(__builtin_bit_cast(std::uint32_t, limited) >> 23) - 127, +format.min_exponent);
  // A sum with 1.5 * 2^n rounds to the unit of the codes and has the number of these units in its low bits.
  const std::uint32_t shifter = static_cast<std::uint32_t>(exponent + 127 + 23 - format.mantissa_bits) << 23 | 1u << 22;
  const std::uint32_t units = __builtin_bit_cast(std::uint32_t, limited + __builtin_bit_cast(float, shifter)) - shifter;
  const std::uint32_t code =
      units + (static_cast<std::uint32_t>(exponent - format.min_exponent) << format.mantissa_bits);
  return std::min(code, static_cast<std::uint32_t>(format.max_code)) | bits >> 31 << format.sign_shift;
}

// Selects by masks: GCC does not vectorise a loop in which a conversion to float is conditional.
template <CodeFormat format>
[[gnu::always_inline]] constexpr float decode(std::uint32_t magnitude, std::uint32_t sign) {
  constexpr int shift = 23 - format.mantissa_bits;
  constexpr std::uint32_t offset = static_cast<std::uint32_t>(format.min_exponent + 126) << 23;
  constexpr float unit =
      __builtin_bit_cast(float, static_cast<std::uint32_t>(format.min_exponent + 127 - format.mantissa_bits) << 23);
  const float small = static_cast<float>(static_cast<std::int32_t>(magnitude)) * unit;
  const std::uint32_t is_small = magnitude < (1u << format.mantissa_bits) ? ~0u : 0u;
  const std::uint32_t bits =
      (__builtin_bit_cast(std::uint32_t, small) & is_small) | (((magnitude << shift) + offset) & ~is_small);
  return __builtin_bit_cast(float, bits | sign);
}
[[gnu::always_inline]] constexpr float decode_e4m3(std::uint32_t code) {
  constexpr std::uint32_t nan_code = 0x7f, nan_bits = 0x7fc00000;
  const std::uint32_t magnitude = code & nan_code, nan = magnitude == nan_code ? nan_bits : 0u;
  return decode<e4m3_codes>(magnitude, (code & 0x80) << 24 | nan);
}
[[gnu::always_inline]] constexpr float decode_e2m1(std::uint32_t code) {
  return decode<e2m1_codes>(code & 7, (code & 8) << 28);
}

// Returns x rounded towards 0, with the last bit set if that is inexact: it keeps its side of every tie.
[[gnu::always_inline]] constexpr float round_to_odd(double x) {
  const auto rounded = static_cast<float>(x);
  auto bits = __builtin_bit_cast(std::uint32_t, rounded);
  const double error = x - static_cast<double>(rounded);
  const bool is_beyond = (rounded < 0) != (error < 0);  // The magnitude was rounded up.
  bits -= static_cast<std::uint32_t>(error != 0 && is_beyond);
  return __builtin_bit_cast(float, bits | static_cast<std::uint32_t>(error != 0));
}

// Returns x / scale rounded to odd without f64. `inverse` is 1 / scale, rounded; the scale must lie between 2^-60 and
// 2^60, so that the remainder of every quotient that has a code other than 0 is exact.
[[gnu::always_inline]] constexpr float divide_to_odd(float x, float scale, float inverse) {
  const float first = x * inverse, quotient = __builtin_fmaf(__builtin_fmaf(-first, scale, x), inverse, first),
              rest = __builtin_fmaf(-quotient, scale, x);
  const auto bits = __builtin_bit_cast(std::uint32_t, quotient);
  if (rest == 0 || (bits & 1) != 0) return quotient;
  const bool is_beyond = ((__builtin_bit_cast(std::uint32_t, rest) ^ bits) & 0x80000000) != 0;
  return __builtin_bit_cast(float, is_beyond ? bits - 1 : bits + 1);
}

// Returns the value of a scale that is a byte.
template <DType dtype> [[gnu::always_inline]] constexpr float decode_scale(std::uint8_t code) {
  constexpr std::uint32_t nan_bits = 0x7fc00000;
  constexpr auto nan = __builtin_bit_cast(float, nan_bits);
  if constexpr (dtype == DType::nvfp4) return (code & 0x80) != 0 ? nan : decode_e4m3(code);
  if (code == 0xff) return nan;
  return code == 0 ? 0x1p-127f : __builtin_bit_cast(float, static_cast<std::uint32_t>(code) << 23);
}
// Returns the code of the scale of a block with this largest magnitude, which is finite.
template <DType dtype> [[gnu::always_inline]] constexpr std::uint8_t encode_scale(float largest) {
  if constexpr (dtype == DType::nvfp4) return to_e4m3(largest / 6).bits;
  constexpr int max_exponent = dtype == DType::mxfp8 ? 8 : 2;
  const int exponent = static_cast<int>(__builtin_bit_cast(std::uint32_t, largest) >> 23) - 127 - max_exponent;
  return static_cast<std::uint8_t>(std::max(exponent, -127) + 127);
}
// Code of the scale of a block that has a NaN or an infinity.
template <DType dtype> inline constexpr std::uint8_t nan_scale_code = dtype == DType::nvfp4 ? 0x7f : 0xff;
// Returns the scale of e4m3_128, which is stored as it is. The quotient in f32 is that in f64, rounded: quotients by
// 448 = 64 * 7 are too far from ties.
[[gnu::always_inline]] constexpr float e4m3_128_scale(float largest) { return largest / 448; }

// Blocks of int4 and u4.
inline constexpr int max_zero_point = 127;  // Zero points are at most 15 if they are made here
// Returns the f16 scale of a block with this largest magnitude or, with zero points, this largest difference between
// two values, 0 among them. It is NaN for a block that has a NaN or an infinity. Quotients by 7 and 15 are too far from
// ties of f16 for the rounding to f32 to matter.
[[gnu::always_inline]] constexpr F16 integer_block_scale(bool has_zero_points, float largest, float span) {
  constexpr std::uint32_t infinity_bits = 0x7f800000;
  constexpr F16 nan{0x7e00}, max{0x7bff};
  if (!((__builtin_bit_cast(std::uint32_t, largest) & INT32_MAX) < infinity_bits)) return nan;
  const F16 scale = to_f16(has_zero_points ? span / 15 : largest / 7);
  return scale.bits > max.bits ? max : scale;
}

// Returns a float that has the code of x / scale.
template <DType dtype> [[gnu::always_inline]] constexpr float divide_by_scale(float x, float scale) {
  if constexpr (has_power_scale<dtype>) {
    const auto scale_bits = __builtin_bit_cast(std::uint32_t, scale);
    return x * __builtin_bit_cast(float, (std::uint32_t{254} << 23) - (scale_bits >> 23 << 23));
  } else if constexpr (dtype == DType::nvfp4) {
    return x / scale;
  } else {
    return round_to_odd(static_cast<double>(x) / static_cast<double>(scale));
  }
}

}  // namespace ridge
