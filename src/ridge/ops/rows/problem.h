// Functions along rows and reductions as plain structs that say nothing of how they are computed: plan/ lowers
// statements to them.
#pragma once

#include <cstdint>
#include <vector>

#include "ridge/base/dtype.h"

namespace ridge::ops {

// A function of each row of a matrix, sums in f32. softmax: e^(x - max) / sum; rmsnorm: x / sqrt(mean(x^2) + epsilon),
// times weight[column]. Stored as f32, bf16 or f16. Sizes may be 0. Rows do not see each other: a NaN stays in its row.
enum class RowFunction { softmax, rmsnorm };

struct RowLayout {
  DType dtype = DType::f32;
  std::int64_t row_stride = 0;  // in elements; a row's elements lie side by side
  bool operator==(const RowLayout&) const = default;
};

struct RowProblem {
  RowFunction function = RowFunction::softmax;
  std::int64_t rows = 0, columns = 0;
  RowLayout x, y;
  DType weight = DType::f32;  // rmsnorm
  float epsilon = 1e-5f;      // rmsnorm
  bool operator==(const RowProblem&) const = default;
};

// y at each point of the kept axes is the sum (mean, largest, least) of x along the reduced ones. A NaN among them is
// the answer. Strides in elements.
enum class ReduceFunction { sum, mean, max, min };

struct ReduceAxis {
  std::int64_t extent = 1, x_stride = 0, y_stride = 0;  // y_stride: kept axes only
  bool operator==(const ReduceAxis&) const = default;
};

struct ReduceProblem {
  ReduceFunction function = ReduceFunction::sum;
  DType x = DType::f32, y = DType::f32;
  std::vector<ReduceAxis> kept, reduced;
  bool operator==(const ReduceProblem&) const = default;
};

}  // namespace ridge::ops
