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
// Which dtypes: call.h. `grouped`: A and D are one matrix each, whose m rows lie in `batch` groups, one behind the
// other; product i takes the rows of group i, which may have none (experts, sequences of different lengths). Where
// groups begin comes with the call.
struct MatmulProblem {
  std::int64_t batch = 1, m = 0, n = 0, k = 0;
  MatrixLayout a, b, d;
  bool grouped = false;
  bool operator==(const MatmulProblem&) const = default;
};

// As many groups as may have rows, all of the mean length, as a batch: what counts and predictions are made of before
// anybody knows where groups begin. A problem that is not grouped is as it was.
inline MatmulProblem alike(const MatmulProblem& p) {
  MatmulProblem out = p;
  if (!p.grouped || p.m == 0 || p.batch == 0) return out;
  out.grouped = false;
  out.batch = p.batch < p.m ? p.batch : p.m;
  out.m = (p.m + out.batch - 1) / out.batch;
  out.a.batch_stride = out.m * p.a.row_stride;
  out.d.batch_stride = out.m * p.d.row_stride;
  return out;
}

}  // namespace ridge::ops
