// A matrix product as a plain struct, independent of the target. plan/ lowers statements to it.
#pragma once

#include <cstdint>

#include "ridge/base/dtype.h"
#include "ridge/base/product_size.h"

namespace ridge::ops {

// A matrix in memory: element (r, c) of batch i is at data + i*batch_stride + r*row_stride + c*col_stride, in elements.
// One of row_stride and col_stride is 1, or the extent along that axis is at most 1. If batch_stride is 0, all products
// share the matrix.
struct MatrixLayout {
  DType dtype = DType::f32;
  std::int64_t row_stride = 0, col_stride = 1, batch_stride = 0;
  bool operator==(const MatrixLayout&) const = default;
};

// D[i] = A[i] * B[i] for i < batch: A is m x k, B is k x n, D is m x n. Sizes may be 0 (k = 0 writes zeros). call.h
// lists the dtypes. If `grouped`, A and D are one matrix each, whose m rows are divided into `batch` consecutive
// groups; product i uses the rows of group i, possibly none (experts, sequences of different lengths).
// `MatmulCall::starts` has the first rows of the groups.
struct MatmulProblem {
  std::int64_t batch = 1;
  ProductSize size;
  MatrixLayout a, b, d;
  bool grouped = false;
  bool operator==(const MatmulProblem&) const = default;
};

// Returns a batched problem with groups of the mean length in place of a grouped problem, for counts and predictions,
// which do not know the lengths. Other problems are returned unchanged.
inline MatmulProblem to_uniform_batch(const MatmulProblem& p) {
  MatmulProblem out = p;
  if (!p.grouped || p.size.m == 0 || p.batch == 0) return out;
  out.grouped = false;
  out.batch = p.batch < p.size.m ? p.batch : p.size.m;
  out.size.m = (p.size.m + out.batch - 1) / out.batch;
  out.a.batch_stride = out.size.m * p.a.row_stride;
  out.d.batch_stride = out.size.m * p.d.row_stride;
  return out;
}

}  // namespace ridge::ops
