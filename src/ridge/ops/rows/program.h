// A program over rows and columns with functions along the columns in between, each row whole in registers: softmax is
// a load, a text (texts.h) and a store. Kernels of it are generated for CUDA devices.
//   RowBuilder b({rows}, columns);
//   const int x = b.tensor({DType::bf16, {columns, 1}}), y = b.tensor({DType::bf16, {columns, 1}});
//   b.store(b.whole(RowFunction::softmax, b.load(x)), y);
#pragma once

#include "ridge/ops/rows/problem.h"

namespace ridge::ops {

// Writes one step by step. A value is the register that holds it, and is written once.
class RowBuilder {
 public:
  RowBuilder(std::vector<std::int64_t> rows, std::int64_t columns) {
    out_.rows = std::move(rows);
    out_.columns = columns;
  }

  int tensor(ChainTensor tensor);  // its index, for load and store
  int load(int tensor);
  int constant(float value);
  int apply(ChainOp op, int a, int b = 0, int c = 0, int repeat = 1);
  int along(ReduceFunction function, int a);  // of the whole row
  void store(int value, int tensor);

  int whole(RowFunction function, int a, float epsilon = 0);  // without a weight

  RowProgram take() { return std::move(out_); }

 private:
  int add(RowStep step);
  RowProgram out_;
};

// What stands against a kernel of it, as a sentence: more columns than a cluster's registers hold, or such as do not
// lie side by side.
std::optional<std::string> find_fault(const RowProgram& program);
std::optional<std::string> refuse(const RowProgram& program);  // on a CPU: always
// Elements of each value that a lane holds.
std::int64_t lane_elements(const RowProgram& program);

RowProgram row_program(const RowProblem& problem, bool weighted);  // tensors: x, weight if weighted, y

}  // namespace ridge::ops
