// How a call's matrices look to the tile kernels, after the two exchanges that a product allows: D transposed is B
// transposed times A transposed. The first exchange makes D's rows contiguous, the second (`swap` of a menu row) puts
// few rows of D along the tile's n. Internal to the CUDA product.
#pragma once

#include "ridge/ops/product/config.h"
#include "ridge/ops/product/cuda.h"

namespace ridge::ops::cuda {

struct TileOperand {  // `extent` lines along the output's axis, k deep
  const void* data = nullptr;
  tile::Major major = tile::Major::k;
  std::int64_t extent = 0, k = 0;
  std::int64_t line = 0;  // elements from one contiguous line to the next
  std::int64_t batch_stride = 0;
  std::int64_t contiguous() const { return major == tile::Major::k ? k : extent; }
  std::int64_t lines() const { return major == tile::Major::k ? extent : k; }
};

struct TileProblem {  // D is m x n with contiguous rows
  std::int64_t batch = 0, m = 0, n = 0, k = 0;
  TileOperand a, b;
  void* d = nullptr;
  std::int64_t d_line = 0, d_batch_stride = 0;
  bool exchanged = false;
  bool grouped = false;  // m rows in `batch` groups
  const std::int32_t* starts = nullptr;
  std::int64_t results() const { return grouped ? 1 : batch; }  // matrices that D is
  bool constant_a = false, constant_b = false;
};

TileProblem tile_problem(const MatmulCall& call);

// The same values with k contiguous; where they will lie is for the copy to say.
TileOperand turned(const TileOperand& x);

// A copy whose lines start at multiples of 128 bytes, for the copy engine.
std::int64_t copied_line(const TileOperand& x);
std::size_t copied_bytes(const TileOperand& x, std::int64_t batch);
bool copy_engine_reads(const TileOperand& x, std::int64_t batch);

// Whether the copy engine writes D, or adds to it: sums are only rounded, to lines that it can address.
bool stores_in_bulk(const MatmulCall& call);

// What the kernel for a few rows of D takes.
inline constexpr std::int64_t most_gemv_rows = 4, most_dot_columns = std::int64_t{1} << 31;

// Tiles of partial sums that a plan's pieces leave in memory.
std::int64_t partial_tiles(const MatmulPlan& plan);
std::size_t partial_bytes(const MatmulConfig& config, std::int64_t partial_tiles);

}  // namespace ridge::ops::cuda
