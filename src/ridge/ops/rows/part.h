// One worker's rows of a RowProblem. Internal to the kernels: one function in each instruction set's file.
#pragma once

#include "ridge/ops/rows/problem.h"
#include "ridge/tile/cpu/row_part.h"

namespace ridge::ops {

struct RowRun {
  const RowProblem& problem;
  const void *x, *weight;
  void* y;
  tile::cpu::RowsPart part;
  float* weights;  // as part.scratch, a row of floats for weights in another format
};

// body.cc, compiled once for each instruction set.
namespace plain {
void run_rows(const RowRun& run);
}
namespace avx2 {
void run_rows(const RowRun& run);
}
namespace avx512 {
void run_rows(const RowRun& run);
}

}  // namespace ridge::ops
