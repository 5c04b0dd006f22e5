// Building blocks of generated kernels: storage formats, loads and stores of up to 16 bytes, and division of indices.
// Also compiled at run time.
#pragma once

#include "ridge/ops/function/device_math.h"

namespace ridge::device {

using u16 = unsigned short;
using u32 = unsigned int;
using u64 = unsigned long long;
using i64 = long long;

enum class Form { f32, bf16, f16 };
template <Form form> constexpr int size_of = form == Form::f32 ? 4 : 2;

// Returns element i of packed words.
template <Form form> RIDGE_FN float unpacked(const u32* words, int i) {
  if constexpr (form == Form::f32) return __uint_as_float(words[i]);
  const u32 word = words[i / 2];
  if constexpr (form == Form::bf16) return __uint_as_float(i % 2 == 1 ? word & 0xffff0000u : word << 16);
  float x;
  asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(static_cast<u16>(i % 2 == 1 ? word >> 16 : word)));
  return x;
}
template <Form form> RIDGE_FN u16 rounded(float x) {
  u16 bits;
  if constexpr (form == Form::bf16)
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(x));
  else
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
  return bits;
}
template <Form form> RIDGE_FN u32 rounded(float low, float high) {
  u32 bits;
  if constexpr (form == Form::bf16)
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
  else
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
  return bits;
}

// `W` contiguous elements.
template <Form form, int W> struct Pack {
  static constexpr int words = (W * size_of<form> + 3) / 4;
  u32 word[words];
  RIDGE_FN float operator[](int i) const { return unpacked<form>(word, i); }
};

// Cache policy of an access; `streamed` is evicted first. Data that is read must not change while the kernel runs.
enum class Use { kept, streamed };

// Reads `bytes` bytes, or zeros if `exists` is false. Without a branch, so that many reads are in flight concurrently.
template <int bytes, Use use> RIDGE_FN void read_piece(u32* to, const void* from, bool there = true) {
  const u64 place = __cvta_generic_to_global(from);
  const u32 asked = there;
  if constexpr (bytes == 16 && use == Use::streamed)
    asm("{ .reg .pred p; setp.ne.u32 p, %5, 0; mov.u32 %0, 0; mov.u32 %1, 0; mov.u32 %2, 0; mov.u32 %3, 0;"
        " @p ld.global.cs.v4.u32 {%0, %1, %2, %3}, [%4]; }"
        : "=&r"(to[0]), "=&r"(to[1]), "=&r"(to[2]), "=&r"(to[3])
        : "l"(place), "r"(asked));
  else if constexpr (bytes == 16)
    asm("{ .reg .pred p; setp.ne.u32 p, %5, 0; mov.u32 %0, 0; mov.u32 %1, 0; mov.u32 %2, 0; mov.u32 %3, 0;"
        " @p ld.global.nc.v4.u32 {%0, %1, %2, %3}, [%4]; }"
        : "=&r"(to[0]), "=&r"(to[1]), "=&r"(to[2]), "=&r"(to[3])
        : "l"(place), "r"(asked));
  else if constexpr (bytes == 8)
    asm("{ .reg .pred p; setp.ne.u32 p, %3, 0; mov.u32 %0, 0; mov.u32 %1, 0; @p ld.global.nc.v2.u32 {%0, %1}, [%2]; }"
        : "=&r"(to[0]), "=&r"(to[1])
        : "l"(place), "r"(asked));
  else
    asm("{ .reg .pred p; setp.ne.u32 p, %2, 0; mov.u32 %0, 0; @p ld.global.nc.u32 %0, [%1]; }"
        : "=&r"(to[0])
        : "l"(place), "r"(asked));
}
RIDGE_FN u16 read_half(const void* from, bool there) {
  u16 x;
  asm("{ .reg .pred p; setp.ne.u32 p, %2, 0; mov.u16 %0, 0; @p ld.global.nc.u16 %0, [%1]; }"
      : "=&h"(x)
      : "l"(__cvta_generic_to_global(from)), "r"(static_cast<u32>(there)));
  return x;
}
template <int bytes, Use use> RIDGE_FN void write_piece(void* to, const u32* from) {
  if constexpr (bytes == 16) {
    const uint4 x = make_uint4(from[0], from[1], from[2], from[3]);
    if (use == Use::streamed)
      __stcs(static_cast<uint4*>(to), x);
    else
      *static_cast<uint4*>(to) = x;
  } else if constexpr (bytes == 8) {
    const uint2 x = make_uint2(from[0], from[1]);
    if (use == Use::streamed)
      __stcs(static_cast<uint2*>(to), x);
    else
      *static_cast<uint2*>(to) = x;
  } else {
    if (use == Use::streamed)
      __stcs(static_cast<u32*>(to), from[0]);
    else
      *static_cast<u32*>(to) = from[0];
  }
}

template <Form form> RIDGE_FN float read_one(const char* data, i64 at, bool there = true) {
  u32 word;
  if constexpr (form == Form::f32)
    read_piece<4, Use::kept>(&word, data + at * 4, there);
  else
    word = read_half(data + at * 2, there);
  return unpacked<form>(&word, 0);
}
template <Form form> RIDGE_FN void write_one(char* data, i64 at, float x) {
  if constexpr (form == Form::f32)
    reinterpret_cast<float*>(data)[at] = x;
  else
    reinterpret_cast<u16*>(data)[at] = rounded<form>(x);
}

// Reads W elements from `at` on, a multiple of `aligned_elements`; all or none of them exist.
template <Form form, int W, int together, Use use>
RIDGE_FN Pack<form, W> read(const char* data, i64 at, bool there = true) {
  Pack<form, W> x;
  constexpr int bytes = together * size_of<form>;
  if constexpr (bytes >= 4) {
#pragma unroll
    for (int i = 0; i < W / together; ++i)
      read_piece<bytes, use>(x.word + i * (bytes / 4), data + (at + i * together) * size_of<form>, there);
  } else {
#pragma unroll
    for (int i = 0; i < Pack<form, W>::words; ++i) {
      x.word[i] = read_half(data + (at + 2 * i) * 2, there);
      if (2 * i + 1 < W) x.word[i] |= static_cast<u32>(read_half(data + (at + 2 * i + 1) * 2, there)) << 16;
    }
  }
  return x;
}
// Reads W elements of which the first `count` exist; `count` may be negative or more than W. The others become 0. A
// count clamped to 0 … W must not be compared with W: ptxas of CUDA 13.0 takes the comparison from the clamping
// instruction (VIMNMX.RELU) and gets it wrong.
template <Form form, int W, int together, Use use, class Count>
RIDGE_FN Pack<form, W> read_some(const char* data, i64 at, Count count) {
  Pack<form, W> x = read<form, W, together, use>(data, at, count >= W);
  const Count some = count >= W ? 0 : count;
#pragma unroll
  for (int i = 0; i < W; ++i) {
    const char* const place = data + (at + i) * size_of<form>;
    if constexpr (form == Form::f32) {
      u32 one;
      read_piece<4, Use::kept>(&one, place, i < some);
      x.word[i] |= one;
    } else {
      x.word[i / 2] |= static_cast<u32>(read_half(place, i < some)) << (i % 2 * 16);
    }
  }
  return x;
}
template <Form form, int W, int together, Use use, class Count = int>
RIDGE_FN void write(char* data, i64 at, const float (&x)[W], Count count = W) {
  constexpr int bytes = together * size_of<form>;
  if constexpr (bytes >= 4) {
    if (count >= W) {
      u32 word[Pack<form, W>::words];
#pragma unroll
      for (int i = 0; i < Pack<form, W>::words; ++i)
        if constexpr (form == Form::f32)
          word[i] = __float_as_uint(x[i]);
        else
          word[i] = rounded<form>(x[i * 2], x[i * 2 + 1]);
#pragma unroll
      for (int i = 0; i < W / together; ++i)
        write_piece<bytes, use>(data + (at + i * together) * size_of<form>, word + i * (bytes / 4));
      return;
    }
  }
#pragma unroll
  for (int i = 0; i < W; ++i)
    if (i < count) write_one<form>(data, at + i, x[i]);
}

// Returns n / d for n < 2^31 by one wide multiply and a shift, whose constants the host computes (generated.cc). For
// 64-bit n, `by` is d itself.
RIDGE_FN u32 divided(u32 n, u64 by) {
  return static_cast<u32>((static_cast<u64>(n) * static_cast<u32>(by)) >> static_cast<u32>(by >> 32));
}
RIDGE_FN u64 divided(u64 n, u64 by) { return n / by; }

}  // namespace ridge::device
