// Row functions and reductions as plain structs, independent of their implementation. plan/ lowers statements to them.
#pragma once

#include <cstdint>
#include <variant>
#include <vector>

#include "ridge/base/dtype.h"
#include "ridge/ops/chain/problem.h"

namespace ridge::ops {

// A function of each row of a matrix, with sums in f32. softmax: e^(x - max) / sum; rmsnorm: x / sqrt(mean(x^2) +
// epsilon) * weight[column]; layernorm: the same of x - mean(x); log_sum_exp: log(sum of e^x), one number per row.
// Gradients are with respect to x, given dy, the gradient of the result; softmax's gradient takes softmax's result as
// x. Tensors are f32, bf16 or f16; a gradient's x, dy and y have one format. Sizes may be 0. Rows are independent: a
// NaN stays in its row.
//   Gradients with respect to a weight are one number per column: the sum over all rows of dy times the factor of the
// weight, which is x (`product_sum_across_rows`) or the normalized x. x and dy have one format, y any; y has no row
// stride.
enum class RowFunction {
  softmax,
  rmsnorm,
  layernorm,
  log_sum_exp,
  softmax_gradient,
  rmsnorm_gradient,
  layernorm_gradient,
  product_sum_across_rows,
  rmsnorm_weight_gradient,
  layernorm_weight_gradient,
};
inline constexpr RowFunction row_functions[] = {RowFunction::softmax,
                                                RowFunction::rmsnorm,
                                                RowFunction::layernorm,
                                                RowFunction::log_sum_exp,
                                                RowFunction::softmax_gradient,
                                                RowFunction::rmsnorm_gradient,
                                                RowFunction::layernorm_gradient,
                                                RowFunction::product_sum_across_rows,
                                                RowFunction::rmsnorm_weight_gradient,
                                                RowFunction::layernorm_weight_gradient};
constexpr bool is_gradient(RowFunction function) { return function >= RowFunction::softmax_gradient; }
constexpr bool reduces_across_rows(RowFunction function) { return function >= RowFunction::product_sum_across_rows; }
// True if the result is one number per row.
constexpr bool is_row_scalar(RowFunction function) { return function == RowFunction::log_sum_exp; }
constexpr bool has_weight(RowFunction function) {
  return function == RowFunction::rmsnorm || function == RowFunction::layernorm ||
         function == RowFunction::rmsnorm_gradient || function == RowFunction::layernorm_gradient;
}
constexpr bool is_norm(RowFunction function) {
  return has_weight(function) || function > RowFunction::product_sum_across_rows;
}

struct RowLayout {
  DType dtype = DType::f32;
  std::int64_t row_stride = 0;  // In elements; a row is contiguous.
  bool operator==(const RowLayout&) const = default;
};

struct RowProblem {
  RowFunction function = RowFunction::softmax;
  std::int64_t rows = 0, columns = 0;
  RowLayout x, y;
  DType weight_dtype = DType::f32;  // Format of the weight, if the function has one.
  float epsilon = 1e-5f;            // For norms only.
  RowLayout dy = {};                // For gradients only.
  bool operator==(const RowProblem&) const = default;
};

// Addresses of the first elements of a RowProblem's tensors; inputs must not overlap y.
struct RowData {
  const void *x, *weight;  // weight: one element per column; null means ones.
  void* y;
  const void* dy = nullptr;
};

// y at each point of the kept axes is the sum, mean, maximum or minimum of x over the reduced axes. A NaN in x gives
// NaN. Strides are in elements.
enum class ReduceFunction { sum, mean, max, min };

struct ReduceAxis {
  std::int64_t extent = 1, x_stride = 0, y_stride = 0;  // `y_stride` is used by kept axes only.
  bool operator==(const ReduceAxis&) const = default;
};

struct ReduceProblem {
  ReduceFunction function = ReduceFunction::sum;
  DType x = DType::f32, y = DType::f32;
  std::vector<ReduceAxis> kept, reduced;
  bool operator==(const ReduceProblem&) const = default;
};

// A program over rows and columns (program.h builds them). A step writes register[step.result]: an elementwise value, a
// `function` reduction of the row of register[step.a], or its row function `row_function` with epsilon step.constant
// and, for gradients, dy in register[step.b]. `sum_across_rows` stores partial sums of register[step.a] in tensor
// step.slot, one row for each split of the rows.
struct RowProgramStep {
  enum class StepKind { element, row_reduction, row_function, sum_across_rows } kind = StepKind::element;
  ReduceFunction function = ReduceFunction::sum;
  RowFunction row_function = RowFunction::softmax;
  ChainStep step = {};
};

struct RowProgram {
  std::vector<std::int64_t> rows;  // Extents of any number of axes.
  std::int64_t columns = 1;
  std::vector<ChainTensor> tensors;  // Strides: one for each row axis, then 1 or 0 for the columns.
  std::vector<RowProgramStep> steps;
  int registers = 0;
};

// A row-block program runs all steps on one block of rows before the next block, so that intermediate results stay in
// cache. An example is mean, difference, square, sum and quotient of each row.
struct RowBlockOperand {
  DType dtype = DType::f32;
  std::vector<std::int64_t> strides;  // In elements, one for each split dimension; empty for scratch.
  std::int64_t scratch_elements = 0;  // Elements of each thread's scratch; 0 for tensors.
};

struct RowBlockStep {
  std::variant<ChainProgram, RowProblem, ReduceProblem> kernel;
  // Indices into `operands` of the program: a chain's tensors; x, weight (or -1) and y of rows; x and y of a reduction.
  std::vector<int> operands;
};

struct RowBlockProgram {
  std::vector<std::int64_t> extents;      // Extents of the split dimensions, outermost first.
  std::vector<std::int64_t> block_sizes;  // Extents of a block; only one may leave a remainder.
  std::vector<RowBlockOperand> operands;
  std::vector<RowBlockStep> full_steps, remainder_steps;  // For full blocks, and for the shorter last blocks.
};

}  // namespace ridge::ops
