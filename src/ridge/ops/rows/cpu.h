// Row functions and reductions on this CPU. Data pointers point to the first element; inputs may be unaligned and must
// not overlap the output. `threads` 0 means every core that the process may use (base/cores.h).
#pragma once

#include <span>
#include <vector>

#include "ridge/base/reason.h"
#include "ridge/ops/rows/problem.h"
#include "ridge/ops/rows/program.h"

namespace ridge::ops {

// Returns why this problem cannot run.
Reason unsupported_reason(const ReduceProblem& problem);

// Returns the axes sorted by x's strides, outermost first, without extents of 1; adjacent axes are merged if possible.
std::vector<ReduceAxis> sort_and_merge_axes(std::vector<ReduceAxis> axes);

double combine_values(ReduceFunction function, double so_far, double value);  // Adds for a mean.

// Writes y: one result per row of x, or for sums across rows one per column.
void run_row_function(const RowProblem& problem, const RowData& data, int threads = 0);

// Softmax along the middle axis of x[matrices, extent, columns], row-major as y, on a CPU. f32, bf16 or f16.
struct ColumnSoftmaxProblem {
  DType dtype = DType::f32;
  std::int64_t matrices = 0, extent = 0, columns = 0;
};
// x and y may be the same array.
void run_column_softmax(const ColumnSoftmaxProblem& problem, const void* x, void* y, int threads = 0);

void reduce(const ReduceProblem& problem, const void* x, void* y, int threads = 0);

// Runs row-block programs on this CPU.
Reason unsupported_reason(const RowBlockProgram& program);
// data[i] is the data of operands[i], or null for scratch. The program must be supported.
void run_row_blocks(const RowBlockProgram& program, std::span<void* const> data, int threads = 0);

}  // namespace ridge::ops
