// What the words of tile.h are made of on Hopper: a tile lies in shared memory, sums lie in registers, a matrix is also
// known to the copy engine by a tensor map, and an output knows how sums become elements. A 128 x 64 tile of bf16 takes
// 16 KiB; its 128 x 128 sums take 64 registers of each thread of two warpgroups. Included by tile.h when nvcc compiles.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "ridge/tile/epilogue.h"
#include "ridge/tile/shared_rows.h"

namespace ridge::tile {

inline constexpr int most_shared_bytes = 227 * 1024;  // of a block

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
  int age = 0;        // which of the products that are under way was the last to add to it (steps.h)
};

// Policies of the L2, as createpolicy.fractional makes them for all of what is loaded.
inline constexpr std::uint64_t keeps = 0x1000000000000000, drops_first = 0x12F0000000000000;

struct InputOnTarget {
  CUtensorMap map;
  bool batched;                // false: one matrix serves every product of a batch
  std::uint64_t kept = keeps;  // how the L2 keeps what is loaded: keeps, or drops_first
};

struct OutputOnTarget : Finish {
  CUtensorMap map, tail;  // boxes of 64 columns, and of the last N % 64
  bool bulk;              // sums are only rounded, and the copy engine can write them
  bool vectors;           // four neighbouring elements lie aligned
  bool vector_epilogue;   // D and all operands have the format of A and lie in whole 16 bytes along D's rows
  bool adds;              // where bulk: to what D holds
};

// What a product shares with other ranks; where the result is scattered, it is `bulk`.
struct RowsOnTarget {
  GatheredRows gathered;
  ScatteredRows scattered;
  CUtensorMap own;                                 // of the first piece that is gathered
  CUtensorMap pieces[ScatteredRows::most_pieces];  // of what is scattered, in the order of the walk
};

}  // namespace ridge::tile
