// Conversion of narrow weights in registers to pairs of bf16 or f16, the left operand of tensor cores. A thread has two
// lines of weights, the second eight after the first, and of a step of 16 elements of k four of each line: those from 2
// * lane and from 8 + 2 * lane on, where lane is the number of the thread among the four of its lines. All values are
// exact. Products of an element and a scale that a bf16 cannot hold are rounded or infinite, as those of a conversion
// in memory; scales of blocks of integers are not multiplied here.
#pragma once

#include "ridge/base/block_scale.h"
#include "ridge/base/float16.h"
#include "ridge/base/scaled_codes.h"
#include "ridge/ops/product/weight_only/weight_only.h"
#include "ridge/tile/sm90/epilogue.h"

namespace ridge::ops::cuda {

// Steps of k that a thread converts together, a part of a box. Parts are shorter where sums of 64 columns or many
// scales need registers.
template <DType weights, int columns> struct WeightParts {
  static constexpr WeightBox box = weight_box(weights);
  static constexpr int bits = dtype_bits(weights), block = is_block_scaled(weights) ? dtype_info(weights).block : 0;
  static constexpr bool scales_sums = has_integer_blocks(weights), scales_elements = block > 0 && !scales_sums;
  static constexpr bool has_short_parts = block == 16 || (scales_sums && block == 32) || columns == 64;
  static constexpr int step_k = 16, steps = has_short_parts ? 2 : 4, k = steps * step_k;
  static constexpr int parts = box.k / k;
};

// Returns the selected bytes of two words; a digit of `selector` below 4 selects a byte of `low`.
template <std::uint32_t selector> TILE_FN std::uint32_t select_bytes(std::uint32_t low, std::uint32_t high) {
  return __byte_perm(low, high, selector);
}
TILE_FN std::uint32_t multiply_bf16_pairs(std::uint32_t a, std::uint32_t b) {
  std::uint32_t x;
  asm("mul.rn.bf16x2 %0, %1, %2;" : "=r"(x) : "r"(a), "r"(b));
  return x;
}

// 0x4300 + b is the bf16 128 + b for seven bits b. The sign bit of an int8 is worth -128, and 0x4380 is 256.
TILE_FN std::uint32_t int8_pair_to_bf16(std::uint32_t bytes) {
  std::uint32_t x;
  asm("sub.rn.bf16x2 %0, %1, %2;" : "=r"(x) : "r"(bytes & 0xff7fff7fu), "r"(bytes & 0xff80ff80u));
  return x;
}
// 0x6400 + b is the f16 1024 + b for eight bits b, here those of an int8 plus 128.
TILE_FN std::uint32_t biased_pair_to_f16(std::uint32_t bytes) {
  std::uint32_t x;
  asm("sub.rn.f16x2 %0, %1, %2;" : "=r"(x) : "r"(bytes), "r"(0x64806480u));  // 1024 + 128
  return x;
}
TILE_FN std::uint32_t e4m3_pair_to_f16(std::uint32_t bytes) {
  std::uint32_t x;
  asm("{ .reg .b16 l, h; mov.b32 {l, h}, %1; cvt.rn.f16x2.e4m3x2 %0, l; }" : "=r"(x) : "r"(bytes));
  return x;
}

// Returns two bytes of weights as a pair.
template <DType weights, class T> TILE_FN std::uint32_t decode_byte_pair(std::uint32_t bytes) {
  if constexpr (weights == DType::int8 && std::is_same_v<T, Bf16>)
    return int8_pair_to_bf16(select_bytes<0x4140>(bytes, 0x43434343u));
  if constexpr (weights == DType::int8)
    return biased_pair_to_f16(select_bytes<0x4140>(bytes, 0x64646464u) ^ 0x00800080u);
  const std::uint32_t pair = e4m3_pair_to_f16(bytes);
  if constexpr (std::is_same_v<T, F16>) return pair;
  const float2 both = tile::sm90::unpack_pair<F16>(pair);
  return tile::sm90::pack_pair<Bf16>(both.x, both.y);
}

// Places the bits of pair `pair`, two e2m1, in bf16: the sign in bit 15, the exponent and the mantissa in bits 8
// to 6. As subnormal and normal bf16, these are the values times 2^-126.
TILE_FN std::uint32_t spread_e2m1(std::uint32_t word, int pair) {
  constexpr std::uint32_t first = 0x000f000f, second = 0x00f000f0, kept = 0x81c081c0;
  const std::uint32_t x = pair < 2 ? word : word >> 8;
  return (pair % 2 == 0 ? (x & first) * 0x1040u : (x & second) * 0x0104u) & kept;
}

// Returns (x & mask) ^ flipped. The compiler makes two instructions of constants, each at half of the rate of others.
TILE_FN std::uint32_t mask_and_flip(std::uint32_t x, std::uint32_t mask, std::uint32_t flipped) {
  std::uint32_t out;
  asm("lop3.b32 %0, %1, %2, %3, 0x6a;" : "=r"(out) : "r"(x), "r"(mask), "r"(flipped));
  return out;
}

// The scale of a block of integers, and its zero point as a pair of bf16 or f16, to which `offset` is added. Elements
// of int4 are biased by 8, their sign bit, so that all codes are from 0 to 15.
template <DType weights, class T> struct IntegerBlock {
  static constexpr bool is_bf16 = std::is_same_v<T, Bf16>;
  static constexpr std::uint32_t offset = is_bf16 ? 0x43004300 : 0x64006400;  // 128 or 1024, whose last bits are units
  static constexpr std::uint32_t bias = has_zero_points(weights) ? 0 : 0x00080008;
  float scale = 0;
  std::uint32_t zero = 0;

  TILE_FN static IntegerBlock load(const std::uint8_t* from) {
    if constexpr (has_zero_points(weights)) {
      const std::uint32_t word = *reinterpret_cast<const std::uint32_t*>(from),
                          zero = word >> 16 & std::uint32_t{max_zero_point};
      return {tile::sm90::widen(F16{static_cast<std::uint16_t>(word)}), offset | zero | zero << 16};
    }
    return {tile::sm90::widen(F16{*reinterpret_cast<const std::uint16_t*>(from)}), offset | 0x00080008u};
  }
  // Returns the codes of pair `pair`, less the zero point.
  TILE_FN std::uint32_t decode_pair(std::uint32_t word, int pair) const {
    const std::uint32_t code = mask_and_flip(word >> pair * 4, 0x000f000f, offset | bias);
    std::uint32_t x;
    if constexpr (is_bf16)
      asm("sub.rn.bf16x2 %0, %1, %2;" : "=r"(x) : "r"(code), "r"(zero));
    else
      asm("sub.rn.f16x2 %0, %1, %2;" : "=r"(x) : "r"(code), "r"(zero));
    return x;
  }
};

constexpr std::uint32_t rare_scale_limit(DType weights) {
  if (weights == DType::mxfp4) return 129;
  return weights == DType::mxfp8 ? 254 : 0x48;  // 0x48 is 4
}

// Factor of the elements of a block (mxfp8) or of their bits times 2^-126, as a pair of bf16. Scales whose codes are
// rare need more instructions, and large scales of 4-bit elements also a second factor, since the first would be
// infinite. `set_factors` returns a number of at least `rare_limit` for a rare code.
template <DType weights> struct BlockFactors {
  static constexpr std::uint32_t ones = 0x00010001, one = 0x3f803f80, two_to_126 = 0x7e807e80, nan = 0x7fc07fc0;
  static constexpr std::uint32_t rare_limit = rare_scale_limit(weights);
  std::uint32_t code, first, second;

  TILE_FN std::uint32_t set_factors(std::uint32_t scale_code) {
    code = scale_code;
    second = one;
    if constexpr (weights == DType::nvfp4) {
      const float factor = tile::sm90::widen(E4m3{static_cast<std::uint8_t>(code)}) * 0x1p126F;
      first = tile::sm90::pack_pair<Bf16>(factor, factor);
      return code;  // From 4 on the factor is infinite
    }
    const std::uint32_t power = code * (ones << 7);  // 2^(code - 127)
    first = weights == DType::mxfp4 ? power + 0x3f003f00u : power;
    return weights == DType::mxfp4 ? code : code - 1;  // Code 0 of mxfp8, 2^-127, is a subnormal bf16
  }
  TILE_FN void set_rare_factors() {
    if constexpr (weights == DType::nvfp4) {
      if (code < rare_limit) return;
      const float scale = tile::sm90::widen(E4m3{static_cast<std::uint8_t>(code)});
      first = two_to_126;
      second = code < 0x80 ? tile::sm90::pack_pair<Bf16>(scale, scale) : nan;
    } else if constexpr (weights == DType::mxfp4) {
      if (code < rare_limit) return;
      first = two_to_126;
      second = code == 0xff ? nan : code * (ones << 7);
    } else {
      if (code == 0) first = ones << 6;
      if (code == 0xff) first = nan;
    }
  }
};

// The lines of a thread in a box, and their scales.
template <DType weights, class T, int columns> struct ThreadLines {
  using Parts = WeightParts<weights, columns>;
  static constexpr int line_distance = 8 * WeightBox::line_bytes;
  const std::uint8_t *line, *scales[2];  // The second line follows `line_distance` bytes later
  int lane, swizzle;

  // Returns the bytes from `offset` on of unit `unit`, 16 bytes, of a line.
  template <class Word> TILE_FN Word load(int of_line, int unit, int offset) const {
    return *reinterpret_cast<const Word*>(line + of_line * line_distance + ((unit ^ swizzle) * 16 + offset));
  }

  // Converts a part to the operands of its steps. Blocks of integers are `blocks`.
  template <class Blocks>
  TILE_FN void decode(std::uint32_t (&a)[Parts::steps][4], int part, const Blocks& blocks) const {
    if constexpr (Parts::bits == 8)
      decode_bytes(a, part);
    else
      decode_nibbles(a, part, blocks);
    if constexpr (Parts::scales_elements) multiply_by_scales(a, part);
  }

 private:
  TILE_FN void decode_bytes(std::uint32_t (&a)[Parts::steps][4], int part) const {
#pragma unroll
    for (int step = 0; step < Parts::steps; ++step)
#pragma unroll
      for (int i = 0; i < 4; ++i)
        a[step][i] =
            decode_byte_pair<weights, T>(load<std::uint16_t>(i % 2, part * Parts::steps + step, i / 2 * 8 + lane * 2));
  }
  template <class Blocks>
  TILE_FN void decode_nibbles(std::uint32_t (&a)[Parts::steps][4], int part, const Blocks& blocks) const {
#pragma unroll
    for (int two = 0; two < Parts::steps / 2; ++two)
#pragma unroll
      for (int of_line = 0; of_line < 2; ++of_line) {
        const auto word = load<std::uint32_t>(of_line, part * (Parts::steps / 2) + two, lane * 4);
#pragma unroll
        for (int pair = 0; pair < 4; ++pair) {
          std::uint32_t& x = a[two * 2 + pair / 2][pair % 2 * 2 + of_line];
          if constexpr (Parts::scales_sums)
            x = blocks[of_line].decode_pair(word, pair);
          else
            x = spread_e2m1(word, pair);
        }
      }
  }
  TILE_FN void multiply_by_scales(std::uint32_t (&a)[Parts::steps][4], int part) const {
    constexpr int blocks = Parts::k / Parts::block;
    BlockFactors<weights> factors[2][blocks];
    std::uint32_t largest = 0;
#pragma unroll
    for (int i = 0; i < 2 * blocks; ++i)
      largest = max(largest, factors[i % 2][i / 2].set_factors(scales[i % 2][part * blocks + i / 2]));
    const bool has_rare_scales = __any_sync(~0u, largest >= BlockFactors<weights>::rare_limit) != 0;
    if (has_rare_scales)
#pragma unroll
      for (int i = 0; i < 2 * blocks; ++i) factors[i % 2][i / 2].set_rare_factors();
#pragma unroll
    for (int i = 0; i < Parts::steps * 4; ++i) {
      std::uint32_t& x = a[i / 4][i % 4];
      x = multiply_bf16_pairs(x, factors[i % 2][i / 4 * Parts::step_k / Parts::block].first);
    }
    if constexpr (Parts::bits == 4)
      if (has_rare_scales)
#pragma unroll
        for (int i = 0; i < Parts::steps * 4; ++i) {
          std::uint32_t& x = a[i / 4][i % 4];
          x = multiply_bf16_pairs(x, factors[i % 2][i / 4 * Parts::step_k / Parts::block].second);
        }
  }
};

}  // namespace ridge::ops::cuda
