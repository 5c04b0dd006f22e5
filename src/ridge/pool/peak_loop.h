// The loops of peak.h for any vector type: `VectorOps` defines the vector and its operations. Each instruction set has
// its own file with its own `VectorOps` in an unnamed namespace, so no two files share code compiled for different
// CPUs.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ridge/pool/peak.h"

namespace ridge::pool {

// acc = acc * 0.5 + 1 tends to 2: it neither overflows nor makes subnormals, which some cores multiply slowly.
template <class VectorOps, int sums> void f32_peak_loop(std::int64_t rounds) {
  typename VectorOps::Vector acc[sums];
  volatile float half = 0.5F, one = 1.0F;  // volatile hides the values from the compiler
  const typename VectorOps::Vector scale = VectorOps::broadcast(half), step = VectorOps::broadcast(one);
  for (int i = 0; i < sums; ++i) acc[i] = step;
  for (std::int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 32
    for (int i = 0; i < sums; ++i) acc[i] = VectorOps::multiply_add(acc[i], scale, step);
  }
  for (int i = 0; i < sums; ++i) VectorOps::do_not_optimize(acc[i]);
}

// Reads one stream without prefetch instructions: on Zen 4, four streams or prefetches 0.5 to 8 KiB in advance were not
// faster.
template <class VectorOps> void read_loop(const std::byte* from, std::size_t bytes) {
  constexpr std::size_t width = sizeof(typename VectorOps::Vector), streams = 256 / width;
  typename VectorOps::Vector accumulators[streams];
  for (std::size_t i = 0; i < streams; ++i) accumulators[i] = VectorOps::broadcast(0.0F);
  for (std::size_t at = 0; at < bytes; at += 256) {
#pragma GCC unroll 16
    for (std::size_t i = 0; i < streams; ++i)
      accumulators[i] = VectorOps::xor_bits(accumulators[i], VectorOps::load(from + at + i * width));
  }
  for (std::size_t i = 0; i < streams; ++i) VectorOps::do_not_optimize(accumulators[i]);
}

template <class VectorOps, bool non_temporal> void store_vector(std::byte* to, typename VectorOps::Vector value) {
  if constexpr (non_temporal)
    VectorOps::store_non_temporal(to, value);
  else
    VectorOps::store(to, value);
}

template <class VectorOps, bool non_temporal> void copy_loop(std::byte* to, const std::byte* from, std::size_t bytes) {
  constexpr std::size_t width = sizeof(typename VectorOps::Vector);
  for (std::size_t at = 0; at < bytes; at += 256) {
#pragma GCC unroll 16
    for (std::size_t i = 0; i < 256; i += width)
      store_vector<VectorOps, non_temporal>(to + at + i, VectorOps::load(from + at + i));
  }
  if constexpr (non_temporal) VectorOps::store_fence();
}

template <class VectorOps, bool non_temporal>
void xor_loop(std::byte* to, const std::byte* a, const std::byte* b, std::size_t bytes) {
  constexpr std::size_t width = sizeof(typename VectorOps::Vector);
  for (std::size_t at = 0; at < bytes; at += 256) {
#pragma GCC unroll 16
    for (std::size_t i = at; i < at + 256; i += width)
      store_vector<VectorOps, non_temporal>(to + i,
                                            VectorOps::xor_bits(VectorOps::load(a + i), VectorOps::load(b + i)));
  }
  if constexpr (non_temporal) VectorOps::store_fence();
}

}  // namespace ridge::pool
