// How a problem's layouts look to the texts on a CPU. Internal to the kernels.
#pragma once

#include <utility>

#include "ridge/base/cores.h"
#include "ridge/ops/product/problem.h"
#include "ridge/tile/tile.h"

namespace ridge::ops {

// An extent of at most 1 has no stride; say that it is contiguous, so that only the strides that exist decide.
inline MatrixLayout settled(MatrixLayout layout, std::int64_t rows, std::int64_t cols) {
  if (cols <= 1) layout.col_stride = 1;
  if (rows <= 1 && layout.col_stride != 1) layout.row_stride = 1;
  return layout;
}

inline MatrixLayout transposed(MatrixLayout x) {
  std::swap(x.row_stride, x.col_stride);
  return x;
}

// D transposed is B transposed times A transposed.
inline MatmulProblem transposed(const MatmulProblem& p) {
  return {p.batch, p.n, p.m, p.k, transposed(p.b), transposed(p.a), transposed(p.d)};
}

// The matrix as the text sees it: its first coordinate runs along an axis of the output, its second along k.
inline tile::Matrix seen(const MatrixLayout& layout, const void* data, std::int64_t rows, std::int64_t k) {
  const MatrixLayout x = settled(layout, rows, k);
  return {data, rows, k, x.row_stride, x.col_stride, x.batch_stride};
}

// How many threads a product gets of those that were asked for (0: all cores). Waking another one costs some 5 us: what
// one thread computes (100 GFLOP/s) in twice that time or reads (30 GB/s) in that time is not worth sharing. Thread
// counts change no bit of the result.
inline int threads_for(const MatmulProblem& p, int threads) {
  const auto real = [](std::int64_t x) { return static_cast<double>(x); };
  const double flops = 2 * real(p.batch) * real(p.m) * real(p.n) * real(p.k);
  const double bytes = real(p.batch) * (real(p.m) * real(p.k) + real(p.k) * real(p.n) + real(p.m) * real(p.n)) * 4;
  if (flops < 0x1p20 && bytes < 0x1p17) return 1;
  return threads <= 0 ? usable_cores() : threads;
}

}  // namespace ridge::ops
