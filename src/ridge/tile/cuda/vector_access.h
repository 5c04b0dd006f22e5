// Building blocks of generated kernels: storage formats, loads and stores of up to 16 bytes, and division of indices.
// Also compiled at run time.
#pragma once

#include "ridge/ops/function/device_math.h"

namespace ridge::tile::cuda {

using namespace ops::device_math;

using u16 = unsigned short;
using u32 = unsigned int;
using u64 = unsigned long long;
using i64 = long long;

enum class NumberFormat { f32, bf16, f16 };
template <NumberFormat form> constexpr int size_of = form == NumberFormat::f32 ? 4 : 2;

// Returns element i of packed words.
template <NumberFormat format> RIDGE_FN float unpack(const u32* words, int i) {
  if constexpr (format == NumberFormat::f32) return __uint_as_float(words[i]);
  const u32 word = words[i / 2];
  if constexpr (format == NumberFormat::bf16) return __uint_as_float(i % 2 == 1 ? word & 0xffff0000u : word << 16);
  float x;
  asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(static_cast<u16>(i % 2 == 1 ? word >> 16 : word)));
  return x;
}
template <NumberFormat format> RIDGE_FN u16 round_to(float x) {
  u16 bits;
  if constexpr (format == NumberFormat::bf16)
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(x));
  else
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
  return bits;
}
template <NumberFormat format> RIDGE_FN u32 round_to(float low, float high) {
  u32 bits;
  if constexpr (format == NumberFormat::bf16)
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
  else
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
  return bits;
}

// `W` contiguous elements.
template <NumberFormat format, int W> struct Pack {
  static constexpr int words = (W * size_of<format> + 3) / 4;
  u32 word[words];
  RIDGE_FN float operator[](int i) const { return unpack<format>(word, i); }
};

// Cache policy of an access; `streamed` lines are evicted first. Data that is read must not change while the kernel
// runs.
enum class CachePolicy { cached, streamed };

// Reads `bytes` bytes, or returns zeros if `exists` is 0. It has no branch, so that many reads are in flight. `exists`
// is no bool, so that testing a bit of a mask takes one instruction.
template <int bytes, CachePolicy policy> RIDGE_FN void read_bytes(u32* to, const void* from, u32 exists = 1) {
  const u64 address = __cvta_generic_to_global(from);
  if constexpr (bytes == 16 && policy == CachePolicy::streamed)
    asm("{ .reg .pred p; setp.ne.u32 p, %5, 0; mov.u32 %0, 0; mov.u32 %1, 0; mov.u32 %2, 0; mov.u32 %3, 0;"
        " @p ld.global.cs.v4.u32 {%0, %1, %2, %3}, [%4]; }"
        : "=&r"(to[0]), "=&r"(to[1]), "=&r"(to[2]), "=&r"(to[3])
        : "l"(address), "r"(exists));
  else if constexpr (bytes == 16)
    asm("{ .reg .pred p; setp.ne.u32 p, %5, 0; mov.u32 %0, 0; mov.u32 %1, 0; mov.u32 %2, 0; mov.u32 %3, 0;"
        " @p ld.global.nc.v4.u32 {%0, %1, %2, %3}, [%4]; }"
        : "=&r"(to[0]), "=&r"(to[1]), "=&r"(to[2]), "=&r"(to[3])
        : "l"(address), "r"(exists));
  else if constexpr (bytes == 8)
    asm("{ .reg .pred p; setp.ne.u32 p, %3, 0; mov.u32 %0, 0; mov.u32 %1, 0; @p ld.global.nc.v2.u32 {%0, %1}, [%2]; }"
        : "=&r"(to[0]), "=&r"(to[1])
        : "l"(address), "r"(exists));
  else
    asm("{ .reg .pred p; setp.ne.u32 p, %2, 0; mov.u32 %0, 0; @p ld.global.nc.u32 %0, [%1]; }"
        : "=&r"(to[0])
        : "l"(address), "r"(exists));
}
RIDGE_FN u16 read_16_bits(const void* from, u32 exists) {
  u16 x;
  asm("{ .reg .pred p; setp.ne.u32 p, %2, 0; mov.u16 %0, 0; @p ld.global.nc.u16 %0, [%1]; }"
      : "=&h"(x)
      : "l"(__cvta_generic_to_global(from)), "r"(exists));
  return x;
}
template <int bytes, CachePolicy policy> RIDGE_FN void write_bytes(void* to, const u32* from) {
  if constexpr (bytes == 16) {
    const uint4 x = make_uint4(from[0], from[1], from[2], from[3]);
    if (policy == CachePolicy::streamed)
      __stcs(static_cast<uint4*>(to), x);
    else
      *static_cast<uint4*>(to) = x;
  } else if constexpr (bytes == 8) {
    const uint2 x = make_uint2(from[0], from[1]);
    if (policy == CachePolicy::streamed)
      __stcs(static_cast<uint2*>(to), x);
    else
      *static_cast<uint2*>(to) = x;
  } else {
    if (policy == CachePolicy::streamed)
      __stcs(static_cast<u32*>(to), from[0]);
    else
      *static_cast<u32*>(to) = from[0];
  }
}

template <NumberFormat format> RIDGE_FN float read_one(const char* data, i64 at, u32 exists = 1) {
  u32 word;
  if constexpr (format == NumberFormat::f32)
    read_bytes<4, CachePolicy::cached>(&word, data + at * 4, exists);
  else
    word = read_16_bits(data + at * 2, exists);
  return unpack<format>(&word, 0);
}
template <NumberFormat format> RIDGE_FN void write_one(char* data, i64 at, float x) {
  if constexpr (format == NumberFormat::f32)
    reinterpret_cast<float*>(data)[at] = x;
  else
    reinterpret_cast<u16*>(data)[at] = round_to<format>(x);
}

// Reads W elements from element `at` on, a multiple of `aligned_elements`; returns zeros if `exists` is 0.
template <NumberFormat format, int W, int aligned_elements, CachePolicy policy>
RIDGE_FN Pack<format, W> read(const char* data, i64 at, u32 exists = 1) {
  Pack<format, W> x;
  constexpr int bytes = aligned_elements * size_of<format>;
  if constexpr (bytes >= 4) {
#pragma unroll
    for (int i = 0; i < W / aligned_elements; ++i)
      read_bytes<bytes, policy>(x.word + i * (bytes / 4), data + (at + i * aligned_elements) * size_of<format>, exists);
  } else {
#pragma unroll
    for (int i = 0; i < Pack<format, W>::words; ++i) {
      x.word[i] = read_16_bits(data + (at + 2 * i) * 2, exists);
      if (2 * i + 1 < W) x.word[i] |= static_cast<u32>(read_16_bits(data + (at + 2 * i + 1) * 2, exists)) << 16;
    }
  }
  return x;
}
// Reads W elements of which the first `count` exist, and returns zeros for the rest; `count` may be negative or more
// than W. A count clamped to 0 … W must not be compared with W: ptxas of CUDA 13.0 derives the comparison from the
// clamping instruction (VIMNMX.RELU) and miscompiles it.
template <NumberFormat format, int W, int aligned_elements, CachePolicy policy, class Count>
RIDGE_FN Pack<format, W> read_some(const char* data, i64 at, Count count) {
  Pack<format, W> x = read<format, W, aligned_elements, policy>(data, at, count >= W);
  const Count some = count >= W ? 0 : count;
#pragma unroll
  for (int i = 0; i < W; ++i) {
    const char* const address = data + (at + i) * size_of<format>;
    if constexpr (format == NumberFormat::f32) {
      u32 one;
      read_bytes<4, CachePolicy::cached>(&one, address, i < some);
      x.word[i] |= one;
    } else {
      x.word[i / 2] |= static_cast<u32>(read_16_bits(address, i < some)) << (i % 2 * 16);
    }
  }
  return x;
}
template <NumberFormat format, int W, int aligned_elements, CachePolicy policy, class Count = int>
RIDGE_FN void write(char* data, i64 at, const float (&x)[W], Count count = W) {
  constexpr int bytes = aligned_elements * size_of<format>;
  if constexpr (bytes >= 4) {
    if (count >= W) {
      u32 word[Pack<format, W>::words];
#pragma unroll
      for (int i = 0; i < Pack<format, W>::words; ++i)
        if constexpr (format == NumberFormat::f32)
          word[i] = __float_as_uint(x[i]);
        else
          word[i] = round_to<format>(x[i * 2], x[i * 2 + 1]);
#pragma unroll
      for (int i = 0; i < W / aligned_elements; ++i)
        write_bytes<bytes, policy>(data + (at + i * aligned_elements) * size_of<format>, word + i * (bytes / 4));
      return;
    }
  }
#pragma unroll
  for (int i = 0; i < W; ++i)
    if (i < count) write_one<format>(data, at + i, x[i]);
}

// Returns n / d. For 32-bit n < 2^31, `divisor` has a multiplier and a shift that the host computes from d
// (generated.cc); for 64-bit n, `divisor` is d.
RIDGE_FN u32 divide_by(u32 n, u64 divisor) {
  return static_cast<u32>((static_cast<u64>(n) * static_cast<u32>(divisor)) >> static_cast<u32>(divisor >> 32));
}
RIDGE_FN u64 divide_by(u64 n, u64 divisor) { return n / divisor; }

}  // namespace ridge::tile::cuda
