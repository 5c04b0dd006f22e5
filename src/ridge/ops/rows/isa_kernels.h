// Functions that are compiled once for each instruction set. They compute one worker's rows of a RowProblem, or one
// row of a ReduceProblem. Internal to the kernels.
#pragma once

#include <functional>

#include "ridge/ops/rows/problem.h"
#include "ridge/tile/cpu/row_part.h"

namespace ridge::ops {

struct RowRun {
  const RowProblem& problem;
  const RowData& data;
  tile::cpu::ThreadRows part;
  float* weight_scratch;  // One row, for weights that are missing or of another format.
  float* f32_rows;        // A batch of rows (tile::cpu::rows_per_batch), for formats that have no kernels of their own.
};

struct ReduceRun {
  ReduceFunction function;
  DType dtype;
  const void* x;  // Contiguous elements.
  std::int64_t columns;
};

// Reduction across one worker's rows: that of `problem`, or if it is null, of the elements of x by `function`.
struct ColumnReductionRun {
  const RowProblem* problem;
  ReduceFunction function;
  RowLayout x_layout;
  const void *x, *dy;
  tile::cpu::ColumnReductionPart part;
};

// Columns first ... last - 1 of one matrix of a ColumnSoftmaxProblem.
struct ColumnSoftmaxRun {
  DType dtype;
  const void* x;
  void* y;
  std::int64_t extent, columns, first, last;
};

// Defined in body.cc and gradient_body.cc, which are compiled once for each instruction set.
namespace plain {
void run_rows(const RowRun& run);
void run_column_softmax(const ColumnSoftmaxRun& run);
void run_gradient(const RowRun& run);
void reduce_columns_part(const ColumnReductionRun& run);
float reduce_row(const ReduceRun& run);
}  // namespace plain
namespace avx2 {
void run_rows(const RowRun& run);
void run_column_softmax(const ColumnSoftmaxRun& run);
void run_gradient(const RowRun& run);
void reduce_columns_part(const ColumnReductionRun& run);
float reduce_row(const ReduceRun& run);
}  // namespace avx2
namespace avx512 {
void run_rows(const RowRun& run);
void run_column_softmax(const ColumnSoftmaxRun& run);
void run_gradient(const RowRun& run);
void reduce_columns_part(const ColumnReductionRun& run);
float reduce_row(const ReduceRun& run);
}  // namespace avx512

bool is_storable(DType dtype);
void store_rounded(DType dtype, void* y, std::int64_t at, double value);  // Rounds and stores element `at`.

// Receives the results of columns begin ... end - 1 in sums[begin] ... sums[end - 1].
using StoreColumns = std::function<void(std::int64_t begin, std::int64_t end, const double* sums)>;
// Reduces across rows with several workers, for each of which it sets rows, columns and sums of `run.part`. Several
// threads call `store_columns`, each for other columns.
void reduce_across_rows(const ColumnReductionRun& run, std::int64_t rows, std::int64_t columns, int threads,
                        const StoreColumns& store_columns);

}  // namespace ridge::ops
