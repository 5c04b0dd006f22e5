// Quantizes and dequantizes blocks. Compiled once for each instruction set.
#include "ridge/base/check.h"
#include "ridge/base/scaled_codes.h"
#include "ridge/ops/function/block_scale.h"
#include "ridge/ops/function/vector_math_storage.h"
#if defined(__AVX512BW__)
#include "ridge/base/block_scale_avx512.h"
#endif

namespace ridge::ops {
namespace {

constexpr int max_block = 128;
constexpr std::uint32_t infinity_bits = 0x7f800000;

// Copies the codes of `count` elements of 4 bits, two in each byte, to a byte each. They are copied to an array first,
// because bytes may alias floats and then nothing is vectorised.
template <int count> void unpack_codes(const std::uint8_t* from, std::uint8_t (&codes)[count]) {
  std::uint8_t pairs[count / 2];
  std::memcpy(pairs, from, sizeof pairs);
  std::uint16_t spread[count / 2];  // Two codes, each in a byte.
  for (int i = 0; i < count / 2; ++i) spread[i] = static_cast<std::uint16_t>((pairs[i] | pairs[i] << 4) & 0x0f0f);
  std::memcpy(codes, spread, sizeof codes);
}
template <int count> void pack_codes(const std::uint8_t (&codes)[count], std::uint8_t* to) {
  std::uint16_t spread[count / 2];
  std::memcpy(spread, codes, sizeof codes);
  std::uint8_t pairs[count / 2];
  for (int i = 0; i < count / 2; ++i) pairs[i] = static_cast<std::uint8_t>(spread[i] | spread[i] >> 4);
  std::memcpy(to, pairs, sizeof pairs);
}

// Returns the bits of the largest magnitude of `count` values; those of a NaN are above those of infinity.
template <int count> std::uint32_t find_largest(const float* x) {
  std::uint32_t largest = 0;
  for (int i = 0; i < count; ++i) largest = std::max(largest, __builtin_bit_cast(std::uint32_t, x[i]) & INT32_MAX);
  return largest;
}

template <DType dtype> struct ScaledBlock {
  static constexpr DTypeInfo info = dtype_info(dtype);
  static constexpr int block = info.block, scale_bytes = info.scale_bits / 8, code_bytes = block * info.bits / 8;
  static constexpr std::int64_t bytes = scale_bytes + code_bytes;

  static float load_scale(const std::uint8_t* at) {
    if constexpr (dtype == DType::e4m3_128) {
      float scale = 0;
      std::memcpy(&scale, at, sizeof scale);
      return scale;
    } else {
      return decode_scale<dtype>(*at);
    }
  }
  // Codes are copied to an array first: see `unpack_codes`.
  static void dequantize(const std::uint8_t* from, float* __restrict to) {
    const float scale = load_scale(from);
    std::uint8_t codes[block];
    if constexpr (info.bits == 8) {
      std::memcpy(codes, from + scale_bytes, sizeof codes);
      for (int i = 0; i < block; ++i) to[i] = decode_e4m3(codes[i]) * scale;
    } else {
      unpack_codes(from + scale_bytes, codes);
      for (int i = 0; i < block; ++i) to[i] = decode_e2m1(codes[i]) * scale;
    }
  }

  // Stores the scale of a block with this largest magnitude.
  static void store_scale(float largest, std::uint8_t* at) {
    if constexpr (dtype == DType::e4m3_128) {
      const float scale = e4m3_128_scale(largest);
      std::memcpy(at, &scale, sizeof scale);
    } else {
      *at = encode_scale<dtype>(largest);
    }
  }
  static void store_nan(std::uint8_t* at) {
    const float nan = __builtin_nanf("");
    if constexpr (dtype == DType::e4m3_128)
      std::memcpy(at, &nan, sizeof nan);
    else
      *at = nan_scale_code<dtype>;
  }
  static void encode_all(const float* x, float scale, std::uint8_t* codes) {
    for (int i = 0; i < block; ++i)
      codes[i] = static_cast<std::uint8_t>(encode<element_codes<dtype>>(divide_by_scale<dtype>(x[i], scale)));
  }
  static void quantize(const float* x, std::uint8_t* to) {
    const std::uint32_t largest = find_largest<block>(x);
    std::uint8_t codes[block] = {};
    if (largest >= infinity_bits) {
      store_nan(to);
    } else {
      store_scale(__builtin_bit_cast(float, largest), to);
      if (const float scale = load_scale(to); scale != 0) encode_all(x, scale, codes);
    }
    if constexpr (info.bits == 8)
      std::memcpy(to + scale_bytes, codes, sizeof codes);
    else
      pack_codes(codes, to + scale_bytes);
  }
};

// A block of int4 or u4. Products of a code and a scale are exact in f32. Quotients of an f32 by an f16 scale are too
// far from ties between two integers for their rounding to f32 to matter: a tie times the scale is an f32 itself.
template <DType dtype>
requires(has_integer_blocks(dtype)) struct ScaledBlock<dtype> {
  static constexpr DTypeInfo info = dtype_info(dtype);
  static constexpr int block = info.block, scale_bytes = info.scale_bits / 8, code_bytes = block / 2;
  static constexpr std::int64_t bytes = scale_bytes + code_bytes;
  static constexpr bool has_zero = has_zero_points(dtype);

  static void dequantize(const std::uint8_t* from, float* __restrict to) {
    F16 scale_bits{};
    std::memcpy(&scale_bits, from, sizeof scale_bits);
    const float scale = to_float(scale_bits);
    // Codes of int4 are two's complement: with the sign bit inverted they are the value plus 8.
    const int zero = has_zero ? from[2] & max_zero_point : 8, inverted = has_zero ? 0 : 8;
    std::uint8_t codes[block];
    unpack_codes(from + scale_bytes, codes);
    for (int i = 0; i < block; ++i) to[i] = static_cast<float>((codes[i] ^ inverted) - zero) * scale;
  }

  // Rounds a number between -2^22 and 2^22 to the nearest integer, ties to even.
  static int round(float x) {
    constexpr float shifter = 0x1.8p23F;
    return static_cast<int>(__builtin_bit_cast(std::uint32_t, x + shifter) -
                            __builtin_bit_cast(std::uint32_t, shifter));
  }
  // Stores the codes of a block whose value 0 has the code `zero`. Limits are integers, so that limiting the quotient
  // before it is rounded is the same as after it.
  static void encode_all(const float* x, float scale, int zero, std::uint8_t (&codes)[block]) {
    const int least = (has_zero ? 0 : -8) - zero;
    const auto low = static_cast<float>(least), high = static_cast<float>(least + 15);
    for (int i = 0; i < block; ++i)
      codes[i] = static_cast<std::uint8_t>((round(std::min(std::max(x[i] / scale, low), high)) + zero) & 0xf);
  }
  // Returns the bits of a float as an integer of the same order, and those of such an integer as a float: compilers
  // vectorise minima of integers. -0 is below 0.
  static std::int32_t to_ordered(std::int32_t bits) { return bits ^ (bits >> 31 & INT32_MAX); }
  struct ValueRange {
    float low, high;
  };
  // Returns the smallest and the largest value of a block, 0 among them.
  static ValueRange find_range(const float* x) {
    std::int32_t low = 0, high = 0;
    for (int i = 0; i < block; ++i) {
      const std::int32_t value = to_ordered(__builtin_bit_cast(std::int32_t, x[i]));
      low = std::min(low, value);
      high = std::max(high, value);
    }
    return {__builtin_bit_cast(float, to_ordered(low)), __builtin_bit_cast(float, to_ordered(high))};
  }
  static void quantize(const float* x, std::uint8_t* to) {
    const ValueRange range = has_zero ? find_range(x) : ValueRange{0, 0};
    const F16 scale_bits =
        integer_block_scale(has_zero, __builtin_bit_cast(float, find_largest<block>(x)), range.high - range.low);
    const float scale = to_float(scale_bits);
    std::memset(to, 0, scale_bytes);
    std::memcpy(to, &scale_bits, sizeof scale_bits);
    std::uint8_t codes[block] = {};
    if (scale > 0) {
      const int zero = has_zero ? round(std::min(-range.low / scale, 15.0F)) : 0;
      if (has_zero) to[2] = static_cast<std::uint8_t>(zero);
      encode_all(x, scale, zero, codes);
    }
    pack_codes(codes, to + scale_bytes);
  }
};

template <class F> void with_block(DType dtype, const F& f) {
  switch (dtype) {
    case DType::mxfp8: return f(ScaledBlock<DType::mxfp8>{});
    case DType::mxfp4: return f(ScaledBlock<DType::mxfp4>{});
    case DType::nvfp4: return f(ScaledBlock<DType::nvfp4>{});
    case DType::e4m3_128: return f(ScaledBlock<DType::e4m3_128>{});
    case DType::int4_32: return f(ScaledBlock<DType::int4_32>{});
    case DType::int4_64: return f(ScaledBlock<DType::int4_64>{});
    case DType::int4_128: return f(ScaledBlock<DType::int4_128>{});
    case DType::u4_32: return f(ScaledBlock<DType::u4_32>{});
    case DType::u4_64: return f(ScaledBlock<DType::u4_64>{});
    case DType::u4_128: return f(ScaledBlock<DType::u4_128>{});
    default: RIDGE_CHECK(false, "plan() accepts no other dtype");
  }
}

template <class V, class Block, class T> void quantize_all(const BlockQuantization& run, const T* from) {
  alignas(64) float wide[max_block];
  auto* to = static_cast<std::uint8_t*>(run.scaled);
  for (std::int64_t i = 0; i < run.blocks; ++i, from += Block::block, to += Block::bytes) {
    widen_array<V>(from, Block::block, wide);
    Block::quantize(wide, to);
  }
}
template <class V, class Block, class T> void dequantize_line(const std::uint8_t* from, std::int64_t blocks, T* to) {
#if defined(__AVX512BW__)
  if constexpr (is_decoded_exactly<Block::info.dtype, T>) return decode_blocks<Block::info.dtype>(from, blocks, to);
#endif
  alignas(64) float wide[max_block];
  for (std::int64_t i = 0; i < blocks; ++i, from += Block::bytes, to += Block::block) {
    Block::dequantize(from, wide);
    round_array<V>(wide, Block::block, to, false);
  }
}

}  // namespace

namespace RIDGE_BODY_ISA {
void quantize_blocks(const BlockQuantization& run) {
  with_block(run.scaled_dtype, [&](auto block) {
    with_typed_pointer(run.dtype, const_cast<void*>(run.elements),
                       [&](const auto* from) { quantize_all<FloatLanes, decltype(block)>(run, from); });
  });
}
void dequantize_blocks(const BlockDequantization& run) {
  with_block(run.scaled_dtype, [&](auto block) {
    with_typed_pointer(run.dtype, run.elements, [&](auto* to) {
      const auto* from = static_cast<const std::uint8_t*>(run.scaled);
      for (std::int64_t i = 0; i < run.lines; ++i, from += run.scaled_stride_bytes, to += run.element_stride)
        dequantize_line<FloatLanes, decltype(block)>(from, run.blocks, to);
    });
  });
}
}  // namespace RIDGE_BODY_ISA

}  // namespace ridge::ops
