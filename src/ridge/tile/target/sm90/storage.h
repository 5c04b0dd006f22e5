// What the words of tile.h are made of on Hopper: a tile lies in shared memory, sums lie in registers, a matrix is also
// known to the copy engine by a tensor map, and an output knows how sums become elements. A 128 x 64 tile of bf16 takes
// 16 KiB; its 128 x 128 sums take 64 registers of each thread of two warpgroups. Included by tile.h when nvcc compiles.
#pragma once

#include <cuda.h>

#include <cstdint>

namespace ridge::tile {

// Swizzled rows of 128 bytes start at multiples of 1024, or the copy engine and the tensor cores disagree.
template <class T, int Rows, int Cols> struct alignas(1024) SharedTile {
  using type = T;
  static constexpr int rows = Rows, cols = Cols;
  T data[Rows * Cols];
};

// M x N sums, spread over the threads of `Sharers` warpgroups as wgmma leaves them.
template <int M, int N, int Sharers = 1, class Sum_ = float> struct Accumulator {
  using Sum = Sum_;
  static constexpr int rows = M, cols = N, sharers = Sharers, size = M * N / (Sharers * 128);
  Sum v[size];
  bool live = false;  // false: holds nothing yet, the first product overwrites
};

struct InputOnTarget {
  CUtensorMap map;
  bool batched;  // false: one matrix serves every product of a batch
};

// What becomes of a sum x: y = activation(alpha * x + bias) * gate + beta * addend. Null pointers: left out.
enum class Stored : std::uint8_t { bf16, f16, f32 };
enum class Activation : std::uint8_t { none, relu, gelu, gelu_tanh, silu };
struct Operand {  // element (r, c) of product i: data[i * batch_stride + r * row_stride + c * col_stride]
  const void* data;
  Stored stored;
  std::int64_t row_stride, col_stride, batch_stride;
};
struct OutputOnTarget {
  CUtensorMap map, tail;  // boxes of 64 columns, and of the last N % 64
  bool bulk;              // sums are only rounded, and the copy engine can write them
  bool vectors;           // four neighbouring elements lie aligned
  Stored stored;
  Activation activation;
  float alpha, beta;
  Operand bias, gate, addend;
};

}  // namespace ridge::tile
