// One worker's rows of a RowProblem, and one row of a ReduceProblem. Internal to the kernels: functions in each
// instruction set's file.
#pragma once

#include <functional>

#include "ridge/ops/rows/problem.h"
#include "ridge/tile/cpu/row_part.h"

namespace ridge::ops {

struct RowRun {
  const RowProblem& problem;
  const RowData& data;
  tile::cpu::RowsPart part;
  float* weights;  // as part.scratch, a row of floats for weights in another format
};

struct ReduceRun {
  ReduceFunction function;
  DType dtype;
  const void* x;  // elements side by side
  std::int64_t columns;
};

// Some rows of what goes across them: of a RowProblem, or, without one, elements joined by `function`.
struct AcrossRun {
  const RowProblem* problem;
  ReduceFunction function;
  RowLayout x_layout;
  const void *x, *dy;
  tile::cpu::AcrossPart part;
};

// body.cc and gradient_body.cc, compiled once for each instruction set.
namespace plain {
void run_rows(const RowRun& run);
void run_gradient(const RowRun& run);
void run_across(const AcrossRun& run);
float reduced(const ReduceRun& run);
}  // namespace plain
namespace avx2 {
void run_rows(const RowRun& run);
void run_gradient(const RowRun& run);
void run_across(const AcrossRun& run);
float reduced(const ReduceRun& run);
}  // namespace avx2
namespace avx512 {
void run_rows(const RowRun& run);
void run_gradient(const RowRun& run);
void run_across(const AcrossRun& run);
float reduced(const ReduceRun& run);
}  // namespace avx512

bool storable(DType dtype);
void put(DType dtype, void* y, std::int64_t at, double value);  // rounded, as element `at`

// What all rows come to in columns begin … end - 1: sums[begin] and on.
using LeaveColumns = std::function<void(std::int64_t begin, std::int64_t end, const double* sums)>;
// Joins the rows of a run, whose part says nothing of them yet. Calls `leave` from several threads, once a column.
void across(const AcrossRun& run, std::int64_t rows, std::int64_t columns, int threads, const LeaveColumns& leave);

}  // namespace ridge::ops
