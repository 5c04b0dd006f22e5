// Conversions between f32 and 8- and 16-bit storage formats. Arithmetic is always f32: kernels widen what they load and
// round what they store, to nearest, ties to even. 1 + 2^-8 is half-way between the bf16 values 1 and 1 + 2^-7; it is
// rounded to 1, whose last bit is even. Formats: IEEE 754-2008 (f16), the upper half of an f32 (bf16), and
// OCP "8-bit Floating Point Specification" 1.0 (e4m3: no infinity, largest 448). Compiles under nvcc (with
// --expt-relaxed-constexpr); always_inline keeps each call in its caller's instruction set.
#pragma once

#include <cstdint>

#include "ridge/base/dtype.h"

namespace ridge {

struct Bf16 {
  std::uint16_t bits;
  bool operator==(const Bf16&) const = default;
};
struct F16 {
  std::uint16_t bits;
  bool operator==(const F16&) const = default;
};
struct E4m3 {
  std::uint8_t bits;
  bool operator==(const E4m3&) const = default;
};

// Names e4m3_128 in templates: its elements are e4m3, of which each 128 share an f32 scale (block_scale.h).
struct ScaledE4m3 {};

namespace detail {

// Rounds the magnitude `a` (bits of a float, not NaN) to a code with `mantissa` bits and the exponent bias. Above the
// format's range the code exceeds the largest valid one; the caller compares.
template <int mantissa, int bias> [[gnu::always_inline]] constexpr std::uint32_t round_to_code(std::uint32_t a) {
  constexpr int drop = 23 - mantissa;
  constexpr std::uint32_t offset = std::uint32_t{127 - bias} << 23;
  if (a >= offset + (1u << 23)) return (a + (1u << (drop - 1)) - 1 + ((a >> drop) & 1) - offset) >> drop;
  const int shift = drop + 128 - bias - static_cast<int>(a >> 23);
  if (shift > 24) return 0;  // below half the smallest subnormal
  const std::uint32_t m = (a & 0x7fffff) | 0x800000, q = m >> shift, rest = m & ((1u << shift) - 1);
  const std::uint32_t half = 1u << (shift - 1);
  return q + (rest > half || (rest == half && (q & 1) != 0) ? 1 : 0);
}

template <int mantissa, int bias> [[gnu::always_inline]] constexpr float code_to_float(std::uint32_t code) {
  constexpr int drop = 23 - mantissa;
  constexpr float unit = __builtin_bit_cast(float, std::uint32_t{128 - bias - mantissa} << 23);  // smallest subnormal
  const std::uint32_t e = code >> mantissa, m = code & ((1u << mantissa) - 1);
  if (e == 0) return static_cast<float>(m) * unit;
  return __builtin_bit_cast(float, ((e + 127 - bias) << 23) | (m << drop));
}

}  // namespace detail

[[gnu::always_inline]] constexpr float to_float(Bf16 x) {
  return __builtin_bit_cast(float, static_cast<std::uint32_t>(x.bits) << 16);
}
[[gnu::always_inline]] constexpr Bf16 to_bf16(float x) {
  const auto u = __builtin_bit_cast(std::uint32_t, x);
  if ((u & 0x7fffffff) > 0x7f800000) return {static_cast<std::uint16_t>((u >> 16) | 0x40)};  // NaN stays NaN, quiet
  return {static_cast<std::uint16_t>((u + 0x7fff + ((u >> 16) & 1)) >> 16)};
}

[[gnu::always_inline]] constexpr float to_float(F16 x) {
  const std::uint32_t sign = static_cast<std::uint32_t>(x.bits & 0x8000) << 16, code = x.bits & 0x7fff;
  const std::uint32_t quiet = code > 0x7c00 ? 0x400000 : 0, special = 0x7f800000 | ((code & 0x3ff) << 13) | quiet;
  const std::uint32_t wide =
      code >= 0x7c00 ? special : __builtin_bit_cast(std::uint32_t, detail::code_to_float<10, 15>(code));
  return __builtin_bit_cast(float, sign | wide);
}
[[gnu::always_inline]] constexpr F16 to_f16(float x) {
  const auto u = __builtin_bit_cast(std::uint32_t, x);
  const std::uint32_t sign = (u >> 16) & 0x8000, a = u & 0x7fffffff;
  if (a > 0x7f800000) return {static_cast<std::uint16_t>(sign | 0x7e00 | ((a >> 13) & 0x3ff))};
  const std::uint32_t code = detail::round_to_code<10, 15>(a);
  return {static_cast<std::uint16_t>(sign | (code > 0x7c00 ? 0x7c00 : code))};
}

[[gnu::always_inline]] constexpr float to_float(E4m3 x) {
  const std::uint32_t sign = static_cast<std::uint32_t>(x.bits & 0x80) << 24, code = x.bits & 0x7f;
  const std::uint32_t wide =
      code == 0x7f ? 0x7fc00000 : __builtin_bit_cast(std::uint32_t, detail::code_to_float<3, 7>(code));
  return __builtin_bit_cast(float, sign | wide);
}
// Saturates: everything beyond 448, infinity too, becomes 448, as Hopper's cvt.satfinite does. NaN stays NaN.
[[gnu::always_inline]] constexpr E4m3 to_e4m3(float x) {
  const auto u = __builtin_bit_cast(std::uint32_t, x);
  const std::uint32_t sign = (u >> 24) & 0x80, a = u & 0x7fffffff;
  if (a > 0x7f800000) return {static_cast<std::uint8_t>(sign | 0x7f)};
  const std::uint32_t code = detail::round_to_code<3, 7>(a);
  return {static_cast<std::uint8_t>(sign | (code > 0x7e ? 0x7e : code))};
}

// C++ type of a dtype in memory.
template <DType dtype> struct Storage;
template <> struct Storage<DType::f32> { using type = float; };
template <> struct Storage<DType::tf32> { using type = float; };
template <> struct Storage<DType::bf16> { using type = Bf16; };
template <> struct Storage<DType::f16> { using type = F16; };
template <> struct Storage<DType::e4m3> { using type = E4m3; };
template <> struct Storage<DType::e4m3_128> { using type = ScaledE4m3; };
template <> struct Storage<DType::int32> { using type = std::int32_t; };
template <> struct Storage<DType::int8> { using type = std::int8_t; };
template <DType dtype> using storage_t = typename Storage<dtype>::type;

}  // namespace ridge
