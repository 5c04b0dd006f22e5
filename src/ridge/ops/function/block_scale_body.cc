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
