#include "ridge/base/block_scale.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "ridge/base/float16.h"
#include "ridge/base/scaled_codes.h"

namespace ridge {
namespace {

struct SmallFloat {  // a small floating-point format without infinities
  // Bits of the mantissa, bias of the exponent, code of the largest value.
  int mantissa_bits, exponent_bias, max_code;
};
constexpr SmallFloat e4m3{3, 7, 0x7E}, e2m1{1, 1, 7};
constexpr int e4m3_nan = 0x7F, e4m3_sign_bit = 0x80, e2m1_sign_bit = 8, nan_scale_code = 0xFF;
constexpr double max_e4m3 = 448, max_e2m1 = 6;

// Returns the code of a magnitude, rounded to nearest, ties to even.
int encode_magnitude(double magnitude, SmallFloat format) {
  const int exponent =
      magnitude == 0 ? 1 - format.exponent_bias : std::max(std::ilogb(magnitude), 1 - format.exponent_bias);
  const double steps = std::nearbyint(std::ldexp(magnitude, format.mantissa_bits - exponent));
  const double code = steps + std::ldexp(exponent + format.exponent_bias - 1, format.mantissa_bits);
  return static_cast<int>(std::min<double>(code, format.max_code));
}

double decode_magnitude(int code, SmallFloat format) {
  const int exponent = code >> format.mantissa_bits, mantissa = code & ((1 << format.mantissa_bits) - 1);
  if (exponent == 0) return std::ldexp(mantissa, 1 - format.exponent_bias - format.mantissa_bits);
  return std::ldexp(mantissa + (1 << format.mantissa_bits), exponent - format.exponent_bias - format.mantissa_bits);
}

std::int64_t block_bytes(DType dtype) { return scale_block_bits(dtype).bits / 8; }

double find_max_magnitude(const double* values, int count) {
  double out = 0;
  for (int i = 0; i < count; ++i) {
    if (!std::isfinite(values[i])) return std::numeric_limits<double>::quiet_NaN();
    out = std::max(out, std::fabs(values[i]));
  }
  return out;
}

// Writes the scale of a block whose largest magnitude is given; returns the scale after rounding.
double store_scale(DType dtype, std::uint8_t* at, double magnitude) {
  if (dtype == DType::e4m3_128) {
    const auto scale = static_cast<float>(magnitude / max_e4m3);
    std::memcpy(at, &scale, sizeof scale);
    return scale;
  }
  if (std::isnan(magnitude)) {
    *at = dtype == DType::nvfp4 ? e4m3_nan : nan_scale_code;
    return magnitude;
  }
  if (dtype == DType::nvfp4) {
    *at = static_cast<std::uint8_t>(encode_magnitude(magnitude / max_e2m1, e4m3));
    return decode_magnitude(*at, e4m3);
  }
  constexpr int bias = 127;
  const int max_exponent = dtype == DType::mxfp8 ? 8 : 2;
  const int exponent = magnitude == 0 ? -bias : std::clamp(std::ilogb(magnitude) - max_exponent, -bias, bias);
  *at = static_cast<std::uint8_t>(exponent + bias);
  return std::ldexp(1, exponent);
}

double load_scale(DType dtype, const std::uint8_t* at) {
  if (dtype == DType::e4m3_128) {
    float scale = 0;
    std::memcpy(&scale, at, sizeof scale);
    return scale;
  }
  // An nvfp4 scale is an e4m3 without a sign.
  if (*at >= (dtype == DType::nvfp4 ? e4m3_nan : nan_scale_code)) return std::numeric_limits<double>::quiet_NaN();
  return dtype == DType::nvfp4 ? decode_magnitude(*at, e4m3) : std::ldexp(1, *at - 127);
}

int element_code(double quotient, const DTypeInfo& format) {
  const bool is_4_bit = format.bits == 4, is_negative = std::signbit(quotient);
  const int sign = is_4_bit ? e2m1_sign_bit : e4m3_sign_bit;
  return encode_magnitude(std::fabs(quotient), is_4_bit ? e2m1 : e4m3) | (is_negative ? sign : 0);
}

int read_nibble(const std::uint8_t* from, std::int64_t i) { return from[i / 2] >> (i % 2 * 4) & 0xF; }
void write_nibble(std::uint8_t* to, std::int64_t i, int x) {
  to[i / 2] = static_cast<std::uint8_t>((to[i / 2] & 0xF0 >> (i % 2 * 4)) | x << (i % 2 * 4));
}

struct IntegerScale {
  double scale = 0;
  int zero = 0;
};
IntegerScale load_integer_scale(DType dtype, const std::uint8_t* at) {
  F16 scale{};
  std::memcpy(&scale, at, sizeof scale);
  return {to_float(scale), has_zero_points(dtype) ? at[2] & max_zero_point : 0};
}
// Writes the scale, and the zero point, of a block; returns both after rounding.
IntegerScale store_integer_scale(DType dtype, std::uint8_t* at, const double* values) {
  const int block = dtype_info(dtype).block;
  const double magnitude = find_max_magnitude(values, block);
  const double low = std::min(0.0, *std::min_element(values, values + block)),
               high = std::max(0.0, *std::max_element(values, values + block));
  const F16 scale =
      integer_block_scale(has_zero_points(dtype), static_cast<float>(magnitude), static_cast<float>(high - low));
  std::memcpy(at, &scale, sizeof scale);
  IntegerScale out{to_float(scale)};
  if (!has_zero_points(dtype)) return out;
  if (out.scale > 0) out.zero = static_cast<int>(std::min(15.0, std::nearbyint(-low / out.scale)));
  at[2] = static_cast<std::uint8_t>(out.zero);
  at[3] = 0;
  return out;
}
void store_integer_block(DType dtype, std::uint8_t* at, const double* values) {
  const DTypeInfo& format = dtype_info(dtype);
  const IntegerScale scale = store_integer_scale(dtype, at, values);
  std::uint8_t* const elements = at + format.scale_bits / 8;
  std::memset(elements, 0, format.block / 2);
  if (!(scale.scale > 0)) return;
  const double least = has_zero_points(dtype) ? 0 : -8;
  for (int i = 0; i < format.block; ++i) {
    const double code = std::clamp(std::nearbyint(values[i] / scale.scale) + scale.zero, least, least + 15);
    write_nibble(elements, i, static_cast<int>(code) & 0xF);
  }
}

// Changes the order of a unit of 16 bytes between that of hosts, in which byte i has elements 2i and 2i + 1, and that
// of `find_nibble_on_device`.
constexpr int unit_bytes = nibble_unit / 2;
void order_unit_for_device(std::uint8_t* unit) {
  std::uint32_t words[4] = {};
  for (int i = 0; i < unit_bytes; ++i) {
    const std::uint32_t both = unit[i];
    words[i % 4] |= (both & 0xF) << i / 4 * 4 | both >> 4 << (16 + i / 4 * 4);
  }
  std::memcpy(unit, words, unit_bytes);
}
void order_unit_for_host(std::uint8_t* unit) {
  std::uint32_t words[4];
  std::memcpy(words, unit, unit_bytes);
  for (int i = 0; i < unit_bytes; ++i) {
    const std::uint32_t word = words[i % 4] >> i / 4 * 4;
    unit[i] = static_cast<std::uint8_t>((word & 0xF) | (word >> 16 & 0xF) << 4);
  }
}

}  // namespace

void split_blocks(DType dtype, const void* blocks, std::int64_t count, void* elements, void* scales) {
  const std::int64_t scale = dtype_info(dtype).scale_bits / 8, codes = block_bytes(dtype) - scale;
  const auto* from = static_cast<const std::uint8_t*>(blocks);
  auto* const to = static_cast<std::uint8_t*>(elements);
  for (std::int64_t b = 0; b < count; ++b, from += scale + codes) {
    std::memcpy(static_cast<std::uint8_t*>(scales) + b * scale, from, scale);
    std::memcpy(to + b * codes, from + scale, codes);
  }
  if (dtype_bits(dtype) == 4)
    for (std::int64_t i = 0; i + unit_bytes <= count * codes; i += unit_bytes) order_unit_for_device(to + i);
}
void join_blocks(DType dtype, const void* elements, const void* scales, std::int64_t count, void* blocks) {
  const std::int64_t scale = dtype_info(dtype).scale_bits / 8, codes = block_bytes(dtype) - scale, all = count * codes;
  const auto* const from = static_cast<const std::uint8_t*>(elements);
  auto* const to = static_cast<std::uint8_t*>(blocks);
  for (std::int64_t b = 0; b < count; ++b)
    std::memcpy(to + b * (scale + codes), static_cast<const std::uint8_t*>(scales) + b * scale, scale);
  const std::int64_t step = std::min<std::int64_t>(codes, unit_bytes);
  for (std::int64_t i = 0; i < all; i += unit_bytes) {
    std::uint8_t unit[unit_bytes];
    const std::int64_t size = std::min<std::int64_t>(unit_bytes, all - i);
    std::memcpy(unit, from + i, size);
    if (dtype_bits(dtype) == 4 && size == unit_bytes) order_unit_for_host(unit);
    for (std::int64_t at = i; at < i + size; at += step)
      std::memcpy(to + at / codes * (scale + codes) + scale + at % codes, unit + (at - i), step);
  }
}

double load_scaled_element(DType dtype, const void* data, std::int64_t element) {
  const DTypeInfo& format = dtype_info(dtype);
  const auto* block = static_cast<const std::uint8_t*>(data) + element / format.block * block_bytes(dtype);
  const std::int64_t at = element % format.block;
  const std::uint8_t* const elements = block + format.scale_bits / 8;
  if (has_integer_blocks(dtype)) {
    const IntegerScale scale = load_integer_scale(dtype, block);
    const int code = read_nibble(elements, at);
    return (has_zero_points(dtype) ? code - scale.zero : (code ^ 8) - 8) * scale.scale;
  }
  const double scale = load_scale(dtype, block);
  if (format.bits == 8) {
    const int code = elements[at] & e4m3_nan;
    const double magnitude = code == e4m3_nan ? std::numeric_limits<double>::quiet_NaN() : decode_magnitude(code, e4m3);
    return (elements[at] & e4m3_sign_bit ? -magnitude : magnitude) * scale;
  }
  const int code = read_nibble(elements, at);
  const double magnitude = decode_magnitude(code & (e2m1_sign_bit - 1), e2m1);
  return (code & e2m1_sign_bit ? -magnitude : magnitude) * scale;
}

void store_scaled_block(DType dtype, void* data, std::int64_t block, const double* values) {
  const DTypeInfo& format = dtype_info(dtype);
  auto* const at = static_cast<std::uint8_t*>(data) + block * block_bytes(dtype);
  if (has_integer_blocks(dtype)) return store_integer_block(dtype, at, values);
  const double scale = store_scale(dtype, at, find_max_magnitude(values, format.block));
  std::uint8_t* const elements = at + format.scale_bits / 8;
  std::memset(elements, 0, format.block * format.bits / 8);
  if (std::isnan(scale)) return;
  for (int i = 0; i < format.block; ++i) {
    const int code = element_code(scale == 0 ? 0 : values[i] / scale, format);
    if (format.bits == 8)
      elements[i] = static_cast<std::uint8_t>(code);
    else
      write_nibble(elements, i, code);
  }
}

}  // namespace ridge
