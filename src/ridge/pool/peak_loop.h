// The loops of peak.h for any vector type: `VectorOps` defines the vector and its operations. Each instruction set has
// its own file with its own `VectorOps` in an unnamed namespace, so no two files share code compiled for different
// CPUs.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ridge/pool/peak.h"

namespace ridge::ops {

// acc = acc * 0.5 + 1 tends to 2: it neither overflows nor makes subnormals, which some cores multiply slowly.
template <class Isa, int sums> void f32_peak_loop(std::int64_t rounds) {
  typename Isa::Vector acc[sums];
  volatile float half = 0.5F, one = 1.0F;  // volatile hides the values from the compiler
  const typename Isa::Vector scale = Isa::all(half), step = Isa::all(one);
  for (int i = 0; i < sums; ++i) acc[i] = step;
  for (std::int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 32
    for (int i = 0; i < sums; ++i) acc[i] = Isa::multiply_add(acc[i], scale, step);
  }
  for (int i = 0; i < sums; ++i) Isa::keep(acc[i]);
}

// Reads one stream without prefetch instructions: on Zen 4, four streams or prefetches 0.5 to 8 KiB in advance were not
// faster.
template <class Isa> void read_loop(const std::byte* from, std::size_t bytes) {
  constexpr std::size_t width = sizeof(typename Isa::Vector), streams = 256 / width;
  typename Isa::Vector seen[streams];
  for (std::size_t i = 0; i < streams; ++i) seen[i] = Isa::all(0.0F);
  for (std::size_t at = 0; at < bytes; at += 256) {
#pragma GCC unroll 16
    for (std::size_t i = 0; i < streams; ++i) seen[i] = Isa::mix(seen[i], Isa::load(from + at + i * width));
  }
  for (std::size_t i = 0; i < streams; ++i) Isa::keep(seen[i]);
}

template <class Isa, bool past> void put(std::byte* to, typename Isa::Vector value) {
  if constexpr (past)
    Isa::stream(to, value);
  else
    Isa::store(to, value);
}

template <class Isa, bool past> void copy_loop(std::byte* to, const std::byte* from, std::size_t bytes) {
  constexpr std::size_t width = sizeof(typename Isa::Vector);
  for (std::size_t at = 0; at < bytes; at += 256) {
#pragma GCC unroll 16
    for (std::size_t i = 0; i < 256; i += width) put<Isa, past>(to + at + i, Isa::load(from + at + i));
  }
  if constexpr (past) Isa::drain();
}

template <class Isa, bool past>
void combine_loop(std::byte* to, const std::byte* a, const std::byte* b, std::size_t bytes) {
  constexpr std::size_t width = sizeof(typename Isa::Vector);
  for (std::size_t at = 0; at < bytes; at += 256) {
#pragma GCC unroll 16
    for (std::size_t i = at; i < at + 256; i += width)
      put<Isa, past>(to + i, Isa::mix(Isa::load(a + i), Isa::load(b + i)));
  }
  if constexpr (past) Isa::drain();
}

}  // namespace ridge::ops
