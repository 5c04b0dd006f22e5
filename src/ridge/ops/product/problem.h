// A matrix product as a plain struct that says nothing of how it is computed: plan/ lowers statements to it.
#pragma once

#include <cstdint>

#include "ridge/base/dtype.h"

namespace ridge::ops {

// A matrix in memory: element (r, c) of batch i lies at data + i*batch_stride + r*row_stride + c*col_stride, in
// elements. One of row_stride, col_stride is 1 (or the extent along it is at most 1). batch_stride 0: one matrix serves
// all.
struct MatrixLayout {
  DType dtype = DType::f32;
  std::int64_t row_stride = 0, col_stride = 1, batch_stride = 0;
  bool operator==(const MatrixLayout&) const = default;
};

// D[i] = A[i] * B[i] for i < batch: A is m x k, B is k x n, D is m x n. Sizes may be 0 (k = 0 writes zeros).
// Which dtypes: matmul_call.h.
struct MatmulProblem {
  std::int64_t batch = 1, m = 0, n = 0, k = 0;
  MatrixLayout a, b, d;
  bool operator==(const MatmulProblem&) const = default;
};

}  // namespace ridge::ops
