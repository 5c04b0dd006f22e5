// The rows that one thread processes (rows.h), and its scratch memory.
#pragma once

#include <algorithm>

#include "ridge/tile/tile.h"

namespace ridge::tile::cpu {

constexpr Index l1_floats = 4096;  // half of an L1 of 32 KiB, for the rows of a batch
constexpr int max_batch_rows = 16;
// Returns the number of rows that a pass processes as one batch, or 0 if one row exceeds `l1_floats`.
constexpr Index rows_per_batch(Index columns) {
  return std::min<Index>(l1_floats / std::max<Index>(columns, 1), max_batch_rows);
}
// Returns the scratch size in floats, a multiple of a cache line.
constexpr Index row_scratch_floats(Index columns) { return std::max((columns + 15) / 16 * 16, l1_floats); }

// Rows begin … end - 1, which one thread processes.
struct ThreadRows {
  Index begin, end, columns;
  float* scratch;     // 64-byte aligned, row_scratch_floats() floats
  bool non_temporal;  // true if stores are non-temporal
  bool in_l2;         // true if all rows fit in the L2; else the next row is prefetched
  void (*recompute_in_f64)(const void* context, Index row) = nullptr;  // recomputes a row whose results are inaccurate
  const void* context = nullptr;
};

// Rows begin … end - 1 and columns first … last - 1 of one thread in a column reduction. If earlier passes reduce rows,
// these are all columns.
struct ColumnReductionPart {
  Index begin, end, columns, first, last;
  double* sums;  // one per column
  void (*recompute_in_f64)(const void* context, Index row, double* sums) = nullptr;
  const void* context = nullptr;
};

}  // namespace ridge::tile::cpu
