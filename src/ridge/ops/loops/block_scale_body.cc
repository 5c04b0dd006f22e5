// Quantizes and dequantizes blocks. Codes and values are the same as those of base/block_scale.h: a quotient that is
// rounded before it becomes a code could differ only if it were rounded to a tie between two codes. Products with a
// power of two are exact, quotients of an f32 by an e4m3 are too far from ties, and quotients by an f32 are computed in
// f64. Compiled once for each instruction set.
#include "ridge/base/check.h"
#include "ridge/ops/function/vector_math_storage.h"
#include "ridge/ops/loops/isa_kernels.h"

namespace ridge::ops {
namespace {

// A code is a sign, an exponent and a mantissa; the exponents of its values begin at `min_exponent`.
struct CodeFormat {
  int mantissa_bits, min_exponent, max_code, sign_shift;
  float limit;  // Values of this magnitude and above have codes above `max_code`.
};
constexpr CodeFormat e4m3_codes{3, -6, 0x7e, 7, 512}, e2m1_codes{1, 0, 7, 3, 8};
constexpr int max_block = 128;
constexpr std::uint32_t infinity_bits = 0x7f800000;

template <CodeFormat format> [[gnu::always_inline]] inline std::uint32_t encode(float x) {
  const auto bits = __builtin_bit_cast(std::uint32_t, x);
  const float limited = std::min(__builtin_bit_cast(float, bits& INT32_MAX), format.limit);
  const std::int32_t exponent =
      std::max(static_cast<std::int32_t>(__builtin_bit_cast(std::uint32_t, limited) >> 23) - 127, format.min_exponent);
  // A sum with 1.5 * 2^n rounds to the unit of the codes and has the number of these units in its low bits.
  const std::uint32_t shifter = static_cast<std::uint32_t>(exponent + 127 + 23 - format.mantissa_bits) << 23 | 1u << 22;
  const std::uint32_t units = __builtin_bit_cast(std::uint32_t, limited + __builtin_bit_cast(float, shifter)) - shifter;
  const std::uint32_t code =
      units + (static_cast<std::uint32_t>(exponent - format.min_exponent) << format.mantissa_bits);
  return std::min(code, static_cast<std::uint32_t>(format.max_code)) | bits >> 31 << format.sign_shift;
}
// Returns x rounded towards 0, with the last bit set if that is inexact: it keeps its side of every tie.
[[gnu::always_inline]] inline float round_to_odd(double x) {
  const auto rounded = static_cast<float>(x);
  auto bits = __builtin_bit_cast(std::uint32_t, rounded);
  const double error = x - static_cast<double>(rounded);
  const bool is_beyond = (rounded < 0) != (error < 0);  // The magnitude was rounded up.
  bits -= static_cast<std::uint32_t>(error != 0 && is_beyond);
  return __builtin_bit_cast(float, bits | static_cast<std::uint32_t>(error != 0));
}

// Selects by masks: GCC does not vectorise a loop in which a conversion to float is conditional.
[[gnu::always_inline]] inline float decode(std::uint32_t magnitude, std::uint32_t sign, CodeFormat format) {
  const int shift = 23 - format.mantissa_bits;
  const std::uint32_t offset = static_cast<std::uint32_t>(format.min_exponent + 126) << 23;
  const float unit =
      __builtin_bit_cast(float, static_cast<std::uint32_t>(format.min_exponent + 127 - format.mantissa_bits) << 23);
  const float small = static_cast<float>(static_cast<std::int32_t>(magnitude)) * unit;
  const std::uint32_t is_small = magnitude < (1u << format.mantissa_bits) ? ~0u : 0u;
  const std::uint32_t bits =
      (__builtin_bit_cast(std::uint32_t, small) & is_small) | (((magnitude << shift) + offset) & ~is_small);
  return __builtin_bit_cast(float, bits | sign);
}
[[gnu::always_inline]] inline float decode_e4m3(std::uint32_t code) {
  constexpr std::uint32_t nan_code = 0x7f, nan_bits = 0x7fc00000;
  const std::uint32_t magnitude = code & nan_code, nan = magnitude == nan_code ? nan_bits : 0u;
  return decode(magnitude, (code & 0x80) << 24 | nan, e4m3_codes);
}
[[gnu::always_inline]] inline float decode_e2m1(std::uint32_t code) {
  return decode(code & 7, (code & 8) << 28, e2m1_codes);
}

template <DType dtype> struct ScaledBlock {
  static constexpr DTypeInfo info = dtype_info(dtype);
  static constexpr int block = info.block, scale_bytes = info.scale_bits / 8, code_bytes = block * info.bits / 8;
  static constexpr std::int64_t bytes = scale_bytes + code_bytes;
  static constexpr bool has_power_scale = dtype == DType::mxfp8 || dtype == DType::mxfp4;
  static constexpr CodeFormat format = info.bits == 4 ? e2m1_codes : e4m3_codes;

  static float load_scale(const std::uint8_t* at) {
    if constexpr (dtype == DType::e4m3_128) {
      float scale = 0;
      std::memcpy(&scale, at, sizeof scale);
      return scale;
    }
    if constexpr (dtype == DType::nvfp4) return (*at & 0x80) != 0 ? __builtin_nanf("") : decode_e4m3(*at);
    if (*at == 0xff) return __builtin_nanf("");
    return *at == 0 ? 0x1p-127f : __builtin_bit_cast(float, static_cast<std::uint32_t>(*at) << 23);
  }
  // Codes are copied to an array first, because bytes may alias floats and then nothing is vectorised.
  static void dequantize(const std::uint8_t* from, float* __restrict to) {
    const float scale = load_scale(from);
    if constexpr (info.bits == 8) {
      std::uint8_t codes[block];
      std::memcpy(codes, from + scale_bytes, sizeof codes);
      for (int i = 0; i < block; ++i) to[i] = decode_e4m3(codes[i]) * scale;
    } else {
      std::uint8_t pairs[block / 2];
      std::memcpy(pairs, from + scale_bytes, sizeof pairs);
      std::uint16_t spread[block / 2];  // Two codes, each in a byte.
      for (int i = 0; i < block / 2; ++i) spread[i] = static_cast<std::uint16_t>((pairs[i] | pairs[i] << 4) & 0x0f0f);
      std::uint8_t codes[block];
      std::memcpy(codes, spread, sizeof codes);
      for (int i = 0; i < block; ++i) to[i] = decode_e2m1(codes[i]) * scale;
    }
  }

  // Stores the scale of a block with this largest magnitude.
  static void store_scale(float largest, std::uint8_t* at) {
    if constexpr (dtype == DType::e4m3_128) {
      const auto scale = static_cast<float>(static_cast<double>(largest) / 448);
      std::memcpy(at, &scale, sizeof scale);
    } else if constexpr (dtype == DType::nvfp4) {
      *at = to_e4m3(largest / 6).bits;
    } else {
      const int max_exponent = dtype == DType::mxfp8 ? 8 : 2;
      const int exponent = static_cast<int>(__builtin_bit_cast(std::uint32_t, largest) >> 23) - 127 - max_exponent;
      *at = static_cast<std::uint8_t>(std::max(exponent, -127) + 127);
    }
  }
  static void store_nan(std::uint8_t* at) {
    const float nan = __builtin_nanf("");
    if constexpr (dtype == DType::e4m3_128)
      std::memcpy(at, &nan, sizeof nan);
    else
      *at = dtype == DType::nvfp4 ? 0x7f : 0xff;
  }
  static void encode_all(const float* x, float scale, std::uint8_t* codes) {
    if constexpr (has_power_scale) {
      const auto scale_bits = __builtin_bit_cast(std::uint32_t, scale);
      const float inverse = __builtin_bit_cast(float, (std::uint32_t{254} << 23) - (scale_bits >> 23 << 23));
      for (int i = 0; i < block; ++i) codes[i] = static_cast<std::uint8_t>(encode<format>(x[i] * inverse));
    } else if constexpr (dtype == DType::nvfp4) {
      for (int i = 0; i < block; ++i) codes[i] = static_cast<std::uint8_t>(encode<format>(x[i] / scale));
    } else {
      const auto divisor = static_cast<double>(scale);
      for (int i = 0; i < block; ++i)
        codes[i] = static_cast<std::uint8_t>(encode<format>(round_to_odd(static_cast<double>(x[i]) / divisor)));
    }
  }
  static void quantize(const float* x, std::uint8_t* to) {
    std::uint32_t largest = 0;
    for (int i = 0; i < block; ++i) largest = std::max(largest, __builtin_bit_cast(std::uint32_t, x[i]) & INT32_MAX);
    std::uint8_t codes[block] = {};
    if (largest >= infinity_bits) {
      store_nan(to);
    } else {
      store_scale(__builtin_bit_cast(float, largest), to);
      if (const float scale = load_scale(to); scale != 0) encode_all(x, scale, codes);
    }
    if constexpr (info.bits == 8) {
      std::memcpy(to + scale_bytes, codes, sizeof codes);
    } else {
      std::uint16_t spread[block / 2];
      std::memcpy(spread, codes, sizeof codes);
      std::uint8_t pairs[block / 2];
      for (int i = 0; i < block / 2; ++i) pairs[i] = static_cast<std::uint8_t>(spread[i] | spread[i] >> 4);
      std::memcpy(to + scale_bytes, pairs, sizeof pairs);
    }
  }
};

template <class F> void with_block(DType dtype, const F& f) {
  switch (dtype) {
    case DType::mxfp8: return f(ScaledBlock<DType::mxfp8>{});
    case DType::mxfp4: return f(ScaledBlock<DType::mxfp4>{});
    case DType::nvfp4: return f(ScaledBlock<DType::nvfp4>{});
    case DType::e4m3_128: return f(ScaledBlock<DType::e4m3_128>{});
    default: RIDGE_CHECK(false, "plan() accepts no other dtype");
  }
}

template <class V, class Block, class T> void quantize_all(const BlockConversion& run, const T* from) {
  alignas(64) float wide[max_block];
  auto* to = static_cast<std::uint8_t*>(run.scaled);
  for (std::int64_t i = 0; i < run.blocks; ++i, from += Block::block, to += Block::bytes) {
    widen_array<V>(from, Block::block, wide);
    Block::quantize(wide, to);
  }
}
template <class V, class Block, class T> void dequantize_all(const BlockConversion& run, T* to) {
  alignas(64) float wide[max_block];
  const auto* from = static_cast<const std::uint8_t*>(run.scaled);
  for (std::int64_t i = 0; i < run.blocks; ++i, from += Block::bytes, to += Block::block) {
    Block::dequantize(from, wide);
    round_array<V>(wide, Block::block, to, false);
  }
}

}  // namespace

namespace RIDGE_BODY_ISA {
void quantize_blocks(const BlockConversion& run) {
  with_block(run.scaled_dtype, [&](auto block) {
    with_typed_pointer(run.dtype, run.elements,
                       [&](auto* from) { quantize_all<FloatLanes, decltype(block)>(run, from); });
  });
}
void dequantize_blocks(const BlockConversion& run) {
  with_block(run.scaled_dtype, [&](auto block) {
    with_typed_pointer(run.dtype, run.elements,
                       [&](auto* to) { dequantize_all<FloatLanes, decltype(block)>(run, to); });
  });
}
}  // namespace RIDGE_BODY_ISA

}  // namespace ridge::ops
