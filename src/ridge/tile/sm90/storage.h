// The types of tile.h on Hopper: tiles are in shared memory and sums in registers; a matrix also has a tensor map for
// the copy engine (TMA), and an output has an epilogue. A 128 x 64 tile of bf16 takes 16 KiB; 128 x 128 sums take 64
// registers of each thread of two warpgroups. tile.h includes this file when nvcc compiles.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "ridge/tile/epilogue.h"
#include "ridge/tile/shared_rows.h"
#include "ridge/tile/sm90/limits.h"
#include "ridge/tile/sm90/tap_walk.h"

namespace ridge::tile {

// Swizzled rows of 128 bytes must start at multiples of 1024 bytes: the copy engine and the tensor cores swizzle by
// address bits.
template <class T, int Rows, int Cols> struct alignas(1024) SharedTile {
  using type = T;
  static constexpr int rows = Rows, cols = Cols;
  T data[Rows * Cols];
};

// M x N sums in the registers of `WarpgroupsPerTile` warpgroups, in the layout of wgmma.
template <int M, int N, int WarpgroupsPerTile = 1, class Sum_ = float> struct Accumulator {
  using Sum = Sum_;
  static constexpr int rows = M, cols = N, warpgroups_per_tile = WarpgroupsPerTile,
                       size = M * N / (WarpgroupsPerTile * 128);
  Sum v[size];
  bool is_written = false;  // true once a product has written the sums; the first product overwrites them
  int last_product = 0;     // number of the last product issued that adds to the sums (step_ring.h)
};

// L2 cache policies, encoded as by createpolicy.fractional with fraction 1.
inline constexpr std::uint64_t evict_normal = 0x1000000000000000, evict_first = 0x12F0000000000000;

struct TargetInput {
  CUtensorMap map;
  bool batched;                               // false if all products of a batch read the same matrix
  std::uint64_t cache_policy = evict_normal;  // L2 policy of the loads: `evict_normal` or `evict_first`
  TapWalk walk;                               // order of k in a convolution
};

struct TargetOutput : Epilogue {
  CUtensorMap map, tail;  // maps for boxes of 128 bytes of columns, and of the columns that remain of N
  bool stores_in_bulk;    // true if sums are only rounded and then stored by the copy engine
  bool aligned_fours;     // true if each group of four contiguous elements is aligned
  bool vector_epilogue;   // true if the epilogue's operands and D can be read and written in aligned 16-byte units
  bool adds_to_output;    // true if the bulk store adds to D
};

// Rows that a product exchanges with other ranks (shared_rows.h), and their tensor maps.
struct PeerRowMaps {
  GatheredRows gathered;
  ScatteredRows scattered;
  CUtensorMap own_shard;                          // map of this rank's own rows of A
  CUtensorMap shards[ScatteredRows::max_shards];  // maps of the result's shards, in the order of the walk
};

}  // namespace ridge::tile
