// Small f32 products on one thread. The schedule, the arenas and the workers of larger products take as long as the
// multiply-adds of 64 x 64 x 64 elements, so these products call the register block without them. The order of
// summation is that of larger products, so fused kernels give the same bits.
#pragma once

#include "ridge/tile/cpu/engine.h"
#include "ridge/tile/tile.h"

namespace ridge::tile::cpu {

inline constexpr Index max_small_size = 64;  // Largest m, n and k of a small product

// True if `multiply_small` computes products of f32 elements of these sizes with this engine.
bool is_small_product(const Engine& engine, const Matrix& a, const Matrix& b);

// Computes C = A * B transposed: [m][k] times [n][k], with rows or columns of A and B contiguous.
void multiply_small(const Engine& engine, const Matrix& a, const Matrix& b, float* c, Index c_stride);

}  // namespace ridge::tile::cpu
