// Small f32 products on one thread. The schedule, the arenas and the workers of larger products take as long as the
// multiply-adds of 64 x 64 x 64 elements, so these products run without them (small_block.h). The order of summation is
// that of larger products, so fused kernels give the same bits.
#pragma once

#include "ridge/base/product_size.h"
#include "ridge/tile/cpu/engine.h"
#include "ridge/tile/tile.h"

namespace ridge::tile::cpu {

inline constexpr Index max_small_multiply_adds = 1000000;    // 100^3; larger products gain from prefetches
inline constexpr Index max_small_elements = Index{1} << 17;  // Largest A and B, which are read from the L2

// True if a product of f32 may be small enough for `multiply_small`.
constexpr bool has_small_size(const ProductSize& s) {
  const auto is_short = [](std::int64_t x) { return x > 0 && x <= max_small_elements; };
  return is_short(s.m) && is_short(s.n) && is_short(s.k) && s.m * s.k <= max_small_elements &&
         s.n * s.k <= max_small_elements && s.m * s.n <= max_small_elements &&
         s.m * s.n * s.k <= max_small_multiply_adds;
}

// Computes a product for whose size `has_small_size` is true. Returns false and computes nothing if the schedule of
// larger products is faster.
bool multiply_small(const SmallArgs& x);

}  // namespace ridge::tile::cpu
