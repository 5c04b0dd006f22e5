// One worker's rows of a RowProblem. Internal to the kernels: one function in each instruction set's file.
#pragma once

#include <algorithm>

#include "ridge/ops/rows/problem.h"

namespace ridge::ops {

struct RowRun {
  const RowProblem& problem;
  const void *x, *weight;
  void* y;
  std::int64_t begin, end;  // rows
  float* scratch;           // 64-byte aligned, row_scratch() floats
  float* weights;           // likewise, a row of floats for rmsnorm's weights in another format
  bool stream;              // stores go past the caches
  bool in_l2;               // all lies in the L2; else the next row is fetched ahead
};
constexpr std::int64_t l1_floats = 4096;  // half an L1 of 32 KiB: rows that go through a step together
constexpr std::int64_t rows_together(std::int64_t columns) {
  return std::clamp<std::int64_t>(l1_floats / std::max<std::int64_t>(columns, 1), 1, 16);
}
// Floats, in whole lines.
constexpr std::int64_t row_scratch(std::int64_t columns) { return std::max((columns + 15) / 16 * 16, l1_floats); }

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
