// A program over rows and columns whose kernels keep full rows in registers. Softmax, for example, is a load, a row
// function (row_kernels.h) and a store. Kernels are generated for CUDA devices.
//   RowProgramBuilder b({rows}, columns);
//   const int x = b.add_tensor({DType::bf16, {columns, 1}}), y = b.add_tensor({DType::bf16, {columns, 1}});
//   b.store(b.apply_row_function(RowFunction::softmax, b.load(x)), y);
#pragma once

#include <optional>
#include <vector>

#include "ridge/base/reason.h"
#include "ridge/ops/rows/problem.h"

namespace ridge::ops {

// Builds a row program. Values are register numbers; each register is written once.
class RowProgramBuilder {
 public:
  RowProgramBuilder(std::vector<std::int64_t> rows, std::int64_t columns) {
    out_.rows = std::move(rows);
    out_.columns = columns;
  }

  int add_tensor(ChainTensor tensor);  // Returns its index.
  int load(int tensor);
  int add_constant(float value);
  int apply(ChainOp op, int a, int b = 0, int c = 0, int repeat = 1);
  int reduce_row(ReduceFunction function, int a);
  void store(int value, int tensor);
  void reduce_columns(int value, int tensor);  // Must be last. Stores a row of f32 sums per split.

  int apply_row_function(RowFunction function, int a, float epsilon = 0, int dy = 0);  // Applies no weight.

  RowProgram finish() { return std::move(out_); }

 private:
  int add_step(RowProgramStep step);
  RowProgram out_;
};

// Returns why no kernel can be generated (more columns than a cluster's registers hold, or columns that are not
// contiguous).
Reason invalid_reason(const RowProgram& program);
Reason unsupported_reason(const RowProgram& program);  // CPUs run no row program.
Reason unsupported_reason(const RowProblem& problem);
// Returns the maximum number of splits, each with a row of f32 partial sums, or 0 if there is no sum across rows.
std::int64_t max_row_splits(const RowProgram& program);
// Returns how many elements of each value fit into a lane's registers.
std::int64_t max_elements_per_lane(const RowProgram& program);

struct RowInputs {
  std::vector<double> x, dy, weight;  // dy: gradients only; weight: norms only.
};
// Returns y of one row, evaluated by the reference implementation (tile/reference). Ignores strides and formats.
std::vector<double> evaluate_in_f64(const RowProblem& problem, const RowInputs& row);

// The row function that a program computes, however it is written. Program and row functions are evaluated in f64 on
// random rows: compositions of +, *, /, exp, log and roots of row sums that agree there agree wherever both are
// defined.
struct RecognizedRowFunction {
  RowProblem problem;
  int x = 0, weight = -1, y = 0, dy = -1;  // Tensor indices, or -1.
};
// Returns nullopt if none matches. `across` means that the stored values are summed across rows.
std::optional<RecognizedRowFunction> recognize_row_function(const RowProgram& program, bool across = false);

// The program's tensors are x, dy (gradients only), weight (if `weighted`) and y, in this order. If the function sums
// across rows, y is the partial sums.
RowProgram make_row_program(const RowProblem& problem, bool weighted);

}  // namespace ridge::ops
