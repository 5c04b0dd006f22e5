// A program over rows and columns with functions along the columns in between, each row whole in registers: softmax is
// a load, a text (texts.h) and a store. Kernels of it are generated for CUDA devices.
//   RowBuilder b({rows}, columns);
//   const int x = b.tensor({DType::bf16, {columns, 1}}), y = b.tensor({DType::bf16, {columns, 1}});
//   b.store(b.whole(RowFunction::softmax, b.load(x)), y);
#pragma once

#include <optional>
#include <string>
#include <vector>

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
  void across(int value, int tensor);  // the last step: of f32, a row for each piece (pieces_of)

  int whole(RowFunction function, int a, float epsilon = 0, int dy = 0);  // without a weight

  RowProgram take() { return std::move(out_); }

 private:
  int add(RowStep step);
  RowProgram out_;
};

// What stands against a kernel of it, as a sentence: more columns than a cluster's registers hold, or such as do not
// lie side by side.
std::optional<std::string> find_fault(const RowProgram& program);
std::optional<std::string> refuse(const RowProgram& program);  // on a CPU: always
std::optional<std::string> refuse(const RowProblem& problem);
// How many pieces of rows a program that ends in a sum across them leaves at most, each a row of f32; 0: it does not.
std::int64_t pieces_of(const RowProgram& program);
// Elements of each value that a lane holds.
std::int64_t lane_elements(const RowProgram& program);

// A row by its text as it reads (tile/value): y, of log_sum_exp one number. Strides and formats say nothing here.
struct RowValues {
  std::vector<double> x, dy, weight;  // dy: of a gradient; weight: of a norm
};
std::vector<double> in_doubles(const RowProblem& problem, const RowValues& row);

// The function of rows that a program is, whatever it is written as. Program and texts are run on doubles, rows of
// numbers drawn at random: what
// is made of +, *, /, exp, log and roots of a row's numbers and agrees there agrees wherever it is defined.
struct KnownRows {
  RowProblem problem;
  int x = 0, weight = -1, y = 0, dy = -1;  // of RowProgram::tensors; -1: none
};
// `across`: what it stores is summed across its rows.
std::optional<KnownRows> known_rows(const RowProgram& program, bool across = false);

// tensors: x, dy of a gradient, weight if weighted, y; of what goes across rows, its pieces for y
RowProgram row_program(const RowProblem& problem, bool weighted);

}  // namespace ridge::ops
