#include "ridge/base/block_scale.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace ridge {
namespace {

struct Small {                  // a small floating-point format without infinities
  int mantissa, bias, largest;  // bits; of the exponent; the code of the largest value
};
constexpr Small e4m3{3, 7, 0x7E}, e2m1{1, 1, 7};
constexpr int e4m3_nan = 0x7F, sign_of_e4m3 = 0x80, sign_of_e2m1 = 8, nan_scale = 0xFF;
constexpr double largest_e4m3 = 448, largest_e2m1 = 6;

// Of a magnitude, to nearest, ties to even.
int encode(double magnitude, Small format) {
  const int exponent = magnitude == 0 ? 1 - format.bias : std::max(std::ilogb(magnitude), 1 - format.bias);
  const double steps = std::nearbyint(std::ldexp(magnitude, format.mantissa - exponent));
  const double code = steps + std::ldexp(exponent + format.bias - 1, format.mantissa);
  return static_cast<int>(std::min<double>(code, format.largest));
}

double decode(int code, Small format) {
  const int exponent = code >> format.mantissa, mantissa = code & ((1 << format.mantissa) - 1);
  if (exponent == 0) return std::ldexp(mantissa, 1 - format.bias - format.mantissa);
  return std::ldexp(mantissa + (1 << format.mantissa), exponent - format.bias - format.mantissa);
}

std::int64_t bytes_of_block(DType dtype) { return stored_bits(dtype).bits / 8; }

double largest(const double* values, int count) {
  double out = 0;
  for (int i = 0; i < count; ++i) {
    if (!std::isfinite(values[i])) return std::numeric_limits<double>::quiet_NaN();
    out = std::max(out, std::fabs(values[i]));
  }
  return out;
}

// Writes the scale of a block with this largest magnitude and returns it as it is stored.
double store_scale(DType dtype, std::uint8_t* at, double most) {
  if (dtype == DType::e4m3_128) {
    const auto scale = static_cast<float>(most / largest_e4m3);
    std::memcpy(at, &scale, sizeof scale);
    return scale;
  }
  if (std::isnan(most)) {
    *at = dtype == DType::nvfp4 ? e4m3_nan : nan_scale;
    return most;
  }
  if (dtype == DType::nvfp4) {
    *at = static_cast<std::uint8_t>(encode(most / largest_e2m1, e4m3));
    return decode(*at, e4m3);
  }
  constexpr int bias = 127;
  const int top = dtype == DType::mxfp8 ? 8 : 2;
  const int exponent = most == 0 ? -bias : std::clamp(std::ilogb(most) - top, -bias, bias);
  *at = static_cast<std::uint8_t>(exponent + bias);
  return std::ldexp(1, exponent);
}

double load_scale(DType dtype, const std::uint8_t* at) {
  if (dtype == DType::e4m3_128) {
    float scale = 0;
    std::memcpy(&scale, at, sizeof scale);
    return scale;
  }
  if (*at == (dtype == DType::nvfp4 ? e4m3_nan : nan_scale)) return std::numeric_limits<double>::quiet_NaN();
  return dtype == DType::nvfp4 ? decode(*at, e4m3) : std::ldexp(1, *at - 127);
}

int element_code(double quotient, const DTypeInfo& format) {
  const bool four = format.bits == 4, minus = std::signbit(quotient);
  const int sign = four ? sign_of_e2m1 : sign_of_e4m3;
  return encode(std::fabs(quotient), four ? e2m1 : e4m3) | (minus ? sign : 0);
}

}  // namespace

double load_scaled(DType dtype, const void* data, std::int64_t element) {
  const DTypeInfo& format = info(dtype);
  const auto* block = static_cast<const std::uint8_t*>(data) + element / format.block * bytes_of_block(dtype);
  const std::int64_t at = element % format.block;
  const double scale = load_scale(dtype, block);
  const std::uint8_t* const elements = block + format.scale_bits / 8;
  if (format.bits == 8) {
    const double magnitude = decode(elements[at] & e4m3_nan, e4m3);
    return (elements[at] & sign_of_e4m3 ? -magnitude : magnitude) * scale;
  }
  const int code = elements[at / 2] >> (at % 2 * 4) & 0xF;
  const double magnitude = decode(code & (sign_of_e2m1 - 1), e2m1);
  return (code & sign_of_e2m1 ? -magnitude : magnitude) * scale;
}

void store_block(DType dtype, void* data, std::int64_t block, const double* values) {
  const DTypeInfo& format = info(dtype);
  auto* const at = static_cast<std::uint8_t*>(data) + block * bytes_of_block(dtype);
  const double scale = store_scale(dtype, at, largest(values, format.block));
  std::uint8_t* const elements = at + format.scale_bits / 8;
  std::memset(elements, 0, static_cast<std::size_t>(format.block * format.bits / 8));
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
