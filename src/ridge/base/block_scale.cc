#include "ridge/base/block_scale.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

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

}  // namespace

void split_blocks(const void* blocks, std::int64_t count, void* elements, void* scales) {
  constexpr int scale = BlockPlanes::scale_bytes, block = BlockPlanes::block;
  const auto* from = static_cast<const std::uint8_t*>(blocks);
  auto* to = static_cast<std::uint8_t*>(elements);
  auto* to_scale = static_cast<std::uint8_t*>(scales);
  for (; count > 0; --count, from += scale + block, to += block, to_scale += scale) {
    std::memcpy(to_scale, from, scale);
    std::memcpy(to, from + scale, block);
  }
}
void join_blocks(const void* elements, const void* scales, std::int64_t count, void* blocks) {
  constexpr int scale = BlockPlanes::scale_bytes, block = BlockPlanes::block;
  const auto* from = static_cast<const std::uint8_t*>(elements);
  const auto* from_scale = static_cast<const std::uint8_t*>(scales);
  auto* to = static_cast<std::uint8_t*>(blocks);
  for (; count > 0; --count, to += scale + block, from += block, from_scale += scale) {
    std::memcpy(to, from_scale, scale);
    std::memcpy(to + scale, from, block);
  }
}

double load_scaled_element(DType dtype, const void* data, std::int64_t element) {
  const DTypeInfo& format = dtype_info(dtype);
  const auto* block = static_cast<const std::uint8_t*>(data) + element / format.block * block_bytes(dtype);
  const std::int64_t at = element % format.block;
  const double scale = load_scale(dtype, block);
  const std::uint8_t* const elements = block + format.scale_bits / 8;
  if (format.bits == 8) {
    const int code = elements[at] & e4m3_nan;
    const double magnitude = code == e4m3_nan ? std::numeric_limits<double>::quiet_NaN() : decode_magnitude(code, e4m3);
    return (elements[at] & e4m3_sign_bit ? -magnitude : magnitude) * scale;
  }
  const int code = elements[at / 2] >> (at % 2 * 4) & 0xF;
  const double magnitude = decode_magnitude(code & (e2m1_sign_bit - 1), e2m1);
  return (code & e2m1_sign_bit ? -magnitude : magnitude) * scale;
}

void store_scaled_block(DType dtype, void* data, std::int64_t block, const double* values) {
  const DTypeInfo& format = dtype_info(dtype);
  auto* const at = static_cast<std::uint8_t*>(data) + block * block_bytes(dtype);
  const double scale = store_scale(dtype, at, find_max_magnitude(values, format.block));
  std::uint8_t* const elements = at + format.scale_bits / 8;
  std::memset(elements, 0, format.block * format.bits / 8);
  if (std::isnan(scale)) return;
  for (int i = 0; i < format.block; ++i) {
    const int code = element_code(scale == 0 ? 0 : values[i] / scale, format);
    if (format.bits == 8)
      elements[i] = static_cast<std::uint8_t>(code);
    else
      elements[i / 2] = static_cast<std::uint8_t>(elements[i / 2] | code << (i % 2 * 4));
  }
}

}  // namespace ridge
