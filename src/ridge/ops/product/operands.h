// The matrices of a call as tile kernels read them. D transposed is B transposed times A transposed, so operands may be
// exchanged twice: first to make D's rows contiguous, then (`MatmulConfig::swap`) to put few rows of D along the tile's
// n. Internal to the CUDA product.
#pragma once

#include "ridge/ops/product/config.h"
#include "ridge/ops/product/cuda.h"

namespace ridge::ops::cuda {

struct TileOperand {  // An operand of `extent` x k elements
  const void* data = nullptr;
  tile::Major major = tile::Major::k;
  std::int64_t extent = 0, k = 0;
  std::int64_t line_stride = 0;  // Elements between the starts of contiguous lines
  std::int64_t batch_stride = 0;
  std::int64_t contiguous_extent() const { return major == tile::Major::k ? k : extent; }
  std::int64_t line_count() const { return major == tile::Major::k ? extent : k; }
};

struct TileProblem {  // A product whose D is m x n with contiguous rows
  std::int64_t batch = 0, m = 0, n = 0, k = 0;
  TileOperand a, b;
  void* d = nullptr;
  std::int64_t d_line_stride = 0, d_batch_stride = 0;
  bool d_transposed = false;
  bool grouped = false;  // True if the m rows are divided into `batch` groups
  const std::int32_t* starts = nullptr;
  std::int64_t result_count() const { return grouped ? 1 : batch; }  // Number of matrices in D
  bool constant_a = false, constant_b = false;
};

TileProblem make_tile_problem(const MatmulCall& call);

// Returns the layout of a copy with k contiguous; the caller sets `data` and `line_stride`.
TileOperand with_contiguous_k(const TileOperand& x);

// Line stride and size of a copy whose lines start at multiples of 128 bytes, as the copy engine (TMA) requires.
std::int64_t copied_line_elements(const TileOperand& x);
std::size_t copied_bytes(const TileOperand& x, std::int64_t batch);
bool can_copy_engine_read(const TileOperand& x, std::int64_t batch);

// True if the copy engine can store D or add to it: the epilogue only rounds, and D is aligned for it.
bool can_store_in_bulk(const MatmulCall& call);

// Limits of the kernel for a few rows of D.
inline constexpr std::int64_t max_gemv_rows = 4, max_gemv_columns = std::int64_t{1} << 31;

// Number of tiles of partial sums that the splits of a plan write to memory.
std::int64_t partial_tiles(const MatmulPlan& plan);
std::size_t partial_bytes(const MatmulConfig& config, std::int64_t partial_tiles);

}  // namespace ridge::ops::cuda
