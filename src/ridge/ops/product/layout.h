// Conversion of a problem's layouts to the views of the CPU kernels. Internal to the kernels.
#pragma once

#include <utility>

#include "ridge/base/cores.h"
#include "ridge/ops/product/problem.h"
#include "ridge/tile/tile.h"

namespace ridge::ops {

// Returns the layout with unit strides along axes of at most one element, so that such an axis counts as contiguous.
inline MatrixLayout canonical_layout(MatrixLayout layout, std::int64_t rows, std::int64_t cols) {
  if (cols <= 1) layout.col_stride = 1;
  if (rows <= 1 && layout.col_stride != 1) layout.row_stride = 1;
  return layout;
}

inline MatrixLayout transpose_layout(MatrixLayout x) {
  std::swap(x.row_stride, x.col_stride);
  return x;
}

// D transposed is B transposed times A transposed.
inline MatmulProblem transpose_problem(const MatmulProblem& p) {
  return {p.batch, p.size.n, p.size.m, p.size.k, transpose_layout(p.b), transpose_layout(p.a), transpose_layout(p.d)};
}

// True if D transposed is computed, so that the block-scaled operand is B or, without one, D's rows are contiguous.
inline bool computes_transposed(const MatmulProblem& p) {
  if (is_block_scaled(p.a.dtype) || is_block_scaled(p.b.dtype)) return is_block_scaled(p.a.dtype);
  return canonical_layout(p.d, p.size.m, p.size.n).col_stride != 1;
}

// Returns an operand as the kernel definition expects it: rows along an axis of the output, columns along k.
inline tile::Matrix to_tile_matrix(const MatrixLayout& layout, const void* data, std::int64_t rows, std::int64_t k) {
  const MatrixLayout x = canonical_layout(layout, rows, k);
  return {data, rows, k, x.row_stride, x.col_stride, x.batch_stride};
}

// Returns the number of threads for a product: `threads`, all cores for 0, or 1 for a small product. Waking a thread
// costs about 5 us, so a product is small if one thread computes it in 10 us (at 100 GFLOP/s) and reads its matrices in
// 5 us (at 30 GB/s). The number of threads does not change the result.
inline int choose_thread_count(const MatmulProblem& p, int threads) {
  const auto real = [](std::int64_t x) { return static_cast<double>(x); };
  const double flops = 2 * real(p.batch) * real(p.size.m) * real(p.size.n) * real(p.size.k);
  const double bytes =
      real(p.batch) *
      (real(p.size.m) * real(p.size.k) + real(p.size.k) * real(p.size.n) + real(p.size.m) * real(p.size.n)) * 4;
  if (flops < 0x1p20 && bytes < 0x1p17) return 1;
  return threads <= 0 ? usable_cores() : threads;
}

}  // namespace ridge::ops
