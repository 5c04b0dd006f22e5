// Functions along rows and reductions as plain structs that say nothing of how they are computed: plan/ lowers
// statements to them.
#pragma once

#include <cstdint>
#include <variant>
#include <vector>

#include "ridge/base/dtype.h"
#include "ridge/ops/chain/problem.h"

namespace ridge::ops {

// A function of each row of a matrix, sums in f32. softmax: e^(x - max) / sum; rmsnorm: x / sqrt(mean(x^2) + epsilon),
// times weight[column]; layernorm: the same of x - mean(x); log_sum_exp: a number a row, log(sum of e^x). The gradients
// are with respect to x, of dy, that of the result; that of a softmax has what it left as x. Stored as f32, bf16 or
// f16, of a gradient x, dy and y alike. Sizes may be 0. Rows do not see each other: a NaN stays in its row.
//   Gradients with respect to a weight are a number a column, the sum over all rows of dy times what the weight
// multiplies: x itself (product_across), or x as its norm leaves it. x and dy are of one format, y of any; it has no
// row stride.
enum class RowFunction {
  softmax,
  rmsnorm,
  layernorm,
  log_sum_exp,
  softmax_gradient,
  rmsnorm_gradient,
  layernorm_gradient,
  product_across,
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
                                                RowFunction::product_across,
                                                RowFunction::rmsnorm_weight_gradient,
                                                RowFunction::layernorm_weight_gradient};
constexpr bool is_gradient(RowFunction function) { return function >= RowFunction::softmax_gradient; }  // has dy
constexpr bool is_across(RowFunction function) { return function >= RowFunction::product_across; }
constexpr bool is_number(RowFunction function) { return function == RowFunction::log_sum_exp; }  // a row
constexpr bool is_weighted(RowFunction function) {
  return function == RowFunction::rmsnorm || function == RowFunction::layernorm ||
         function == RowFunction::rmsnorm_gradient || function == RowFunction::layernorm_gradient;
}
constexpr bool is_norm(RowFunction function) { return is_weighted(function) || function > RowFunction::product_across; }

struct RowLayout {
  DType dtype = DType::f32;
  std::int64_t row_stride = 0;  // in elements; a row's elements lie side by side
  bool operator==(const RowLayout&) const = default;
};

struct RowProblem {
  RowFunction function = RowFunction::softmax;
  std::int64_t rows = 0, columns = 0;
  RowLayout x, y;
  DType weight = DType::f32;  // of what is weighted
  float epsilon = 1e-5f;      // of a norm
  RowLayout dy = {};          // of a gradient
  bool operator==(const RowProblem&) const = default;
};

// Data of one, at its first elements: inputs must not overlap y.
struct RowData {
  const void *x, *weight;  // weight: problem.columns elements (of what is weighted; null: all ones)
  void* y;
  const void* dy = nullptr;
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

// A program over rows and columns with functions along the columns in between (program.h writes them).
// register[step.result] is of each element, or `function` along the row of register[step.a], or all of that row's
// `whole`, whose epsilon is step.constant and, of a gradient, dy register[step.b]. across: register[step.a], added over
// the rows that one piece of them has, is stored in tensor step.slot, whose first row is a piece's.
struct RowStep {
  enum class Kind { element, along, whole, across } kind = Kind::element;
  ReduceFunction function = ReduceFunction::sum;
  RowFunction whole = RowFunction::softmax;
  ChainStep step = {};
};

struct RowProgram {
  std::vector<std::int64_t> rows;  // extents of any number of axes
  std::int64_t columns = 1;
  std::vector<ChainTensor> tensors;  // strides: one an axis of the rows, and along the columns: 1, or 0
  std::vector<RowStep> steps;
  int registers = 0;
};

// Steps that follow one another some rows at a time, so that what one leaves the next finds near the core, and what
// lies between them has no place in memory: mean, difference, square, sum and quotient of a row in one pass over it.
struct StripOperand {
  DType dtype = DType::f32;
  std::vector<std::int64_t> strides;  // along each dimension that is cut, in elements; of scratch: none
  std::int64_t scratch = 0;           // above 0: elements that a strip needs, of which each thread has its own
};

struct StripStep {
  std::variant<ChainProgram, RowProblem, ReduceProblem> kernel;
  // Indices into Strips::operands: the tensors of a chain; x, weight (-1: none) and y of rows; x and y of a reduction.
  std::vector<int> operands;
};

struct Strips {
  std::vector<std::int64_t> extents;  // of the dimensions that are cut, outermost first
  std::vector<std::int64_t> parts;    // how much of each a strip has; only one of them may leave a rest
  std::vector<StripOperand> operands;
  std::vector<StripStep> whole, rest;  // for strips of `parts`, and for those that are shorter in that one dimension
};

}  // namespace ridge::ops
