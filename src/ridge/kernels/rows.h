// One worker's rows of a RowProblem. Internal to the kernels: one function in each instruction set's file.
#pragma once

#include "ridge/kernels/menu.h"

namespace ridge::kernels {

struct RowRun {
  const RowProblem& problem;
  const void *x, *weight;
  void* y;
  std::int64_t begin, end;  // rows
  float* scratch;           // 64-byte aligned, a row of floats
  bool stream;              // stores go past the caches, and the next row is fetched ahead
};
void run_rows_plain(const RowRun& run);
void run_rows_avx2(const RowRun& run);
void run_rows_avx512(const RowRun& run);

}  // namespace ridge::kernels
