// Conversion of narrow weights in registers to pairs of bf16 or f16, the operands of tensor cores. `WeightPart` has the
// 32 elements of a line of weights that a thread multiplies at a time, in four units of eight. `decode_unit` returns
// the four pairs of a unit. All values are exact; products of an element and a scale that a bf16 cannot hold are
// rounded or infinite, as those of a conversion in memory.
#pragma once

#include "ridge/base/float16.h"
#include "ridge/ops/product/weight_only/weight_only.h"
#include "ridge/tile/sm90/epilogue.h"

namespace ridge::ops::cuda {

struct FourPairs {
  std::uint32_t pair[4];
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
TILE_FN std::uint32_t e4m3_pair_to_f16(std::uint32_t bytes, bool upper) {
  std::uint32_t x;
  if (upper)
    asm("{ .reg .b16 l, h; mov.b32 {l, h}, %1; cvt.rn.f16x2.e4m3x2 %0, h; }" : "=r"(x) : "r"(bytes));
  else
    asm("{ .reg .b16 l, h; mov.b32 {l, h}, %1; cvt.rn.f16x2.e4m3x2 %0, l; }" : "=r"(x) : "r"(bytes));
  return x;
}

template <DType weights, class T> TILE_FN void decode_bytes(std::uint32_t bytes, std::uint32_t (&pairs)[2]) {
  if constexpr (weights == DType::int8 && std::is_same_v<T, Bf16>) {
    pairs[0] = int8_pair_to_bf16(select_bytes<0x4140>(bytes, 0x43434343u));
    pairs[1] = int8_pair_to_bf16(select_bytes<0x4342>(bytes, 0x43434343u));
  } else if constexpr (weights == DType::int8) {
    const std::uint32_t biased = bytes ^ 0x80808080u;
    pairs[0] = biased_pair_to_f16(select_bytes<0x4140>(biased, 0x64646464u));
    pairs[1] = biased_pair_to_f16(select_bytes<0x4342>(biased, 0x64646464u));
  } else {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      pairs[i] = e4m3_pair_to_f16(bytes, i == 1);
      if constexpr (std::is_same_v<T, Bf16>) {
        const float2 both = tile::sm90::unpack_pair<F16>(pairs[i]);
        pairs[i] = tile::sm90::pack_pair<Bf16>(both.x, both.y);
      }
    }
  }
}

// Places the bits of e2m1 elements in bf16 words: the sign in bit 15, the exponent and the mantissa in bits 8 to 6. As
// subnormal and normal bf16, these are the values times 2^-126. The pairs are elements 0 and 4, 1 and 5, 2 and 6, 3 and
// 7 of a word, because pairs of adjacent elements would take more instructions.
TILE_FN FourPairs spread_e2m1(std::uint32_t word) {
  constexpr std::uint32_t first = 0x000f000f, second = 0x00f000f0, kept = 0x81c081c0;
  const std::uint32_t upper = word >> 8;
  return {{(word & first) * 0x1040u & kept, (word & second) * 0x0104u & kept, (upper & first) * 0x1040u & kept,
           (upper & second) * 0x0104u & kept}};
}

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

// The 32 elements of a thread and a line, as loaded.
template <DType weights> struct WeightPart {
  static constexpr bool is_scaled = is_block_scaled(weights), has_four_bits = dtype_bits(weights) == 4;
  static constexpr int block = is_scaled ? dtype_info(weights).block : 32;
  static constexpr int words = dtype_bits(weights), scales = 32 / block;
  std::uint32_t data[words];
  BlockFactors<weights> factors[scales];

  // Loads half of a part of weights without scales, two units. `line` is the line's address in the box, `swizzle` its
  // number.
  TILE_FN void load_half(const std::uint8_t* line, int swizzle, int half) {
    const int quarter = static_cast<int>(threadIdx.x) % 4;
    const uint4 x = *reinterpret_cast<const uint4*>(line + ((quarter * 2 + half) ^ (swizzle & 7)) * 16);
    data[half * 4] = x.x;
    data[half * 4 + 1] = x.y;
    data[half * 4 + 2] = x.z;
    data[half * 4 + 3] = x.w;
  }
  // Loads part `part` of the thread's elements of a line. Returns the largest number of `set_factors`. Block i of the
  // thread's four blocks has its scale in byte i of a word, and its elements from the next byte on.
  TILE_FN std::uint32_t load_scaled(const std::uint8_t* line, int part) {
    constexpr int block_words = words / scales, quarter_bytes = weight_box(weights).line_bytes / 4;
    const int quarter = static_cast<int>(threadIdx.x) % 4;
    const auto* const from = reinterpret_cast<const std::uint32_t*>(line + quarter * quarter_bytes) + part * words;
    std::uint32_t low = from[0], largest = 0;
#pragma unroll
    for (int s = 0; s < scales; ++s) {
      const int byte = part * scales + s;
      largest = max(largest, factors[s].set_factors(__byte_perm(low, 0, 0x4440 + byte)));
#pragma unroll
      for (int i = 0; i < block_words; ++i) {
        const std::uint32_t high = from[s * block_words + i + 1];
        data[s * block_words + i] = __funnelshift_rc(low, high, byte * 8 + 8);
        low = high;
      }
    }
    return largest;
  }

  template <class T> TILE_FN FourPairs decode_unit(int unit) const {
    FourPairs out;
    if constexpr (has_four_bits) {
      out = spread_e2m1(data[unit]);
    } else {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        std::uint32_t pairs[2];
        decode_bytes<weights, T>(data[unit * 2 + i], pairs);
        out.pair[i * 2] = pairs[0];
        out.pair[i * 2 + 1] = pairs[1];
      }
    }
    if constexpr (is_scaled)
#pragma unroll
      for (std::uint32_t& pair : out.pair) pair = multiply_bf16_pairs(pair, factors[unit * 8 / block].first);
    return out;
  }
  TILE_FN void multiply_by_second_factor(FourPairs& pairs, int unit) const {
#pragma unroll
    for (std::uint32_t& pair : pairs.pair) pair = multiply_bf16_pairs(pair, factors[unit * 8 / block].second);
  }
};

}  // namespace ridge::ops::cuda
