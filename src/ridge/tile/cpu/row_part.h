// Which rows a thread has (rows.h), and what it needs for them.
#pragma once

#include <algorithm>

#include "ridge/tile/tile.h"

namespace ridge::tile::cpu {

constexpr Index l1_floats = 4096;  // half an L1 of 32 KiB: rows that go through a pass together
constexpr int most_rows = 16;
// None: of a row not even the L1 holds so much.
constexpr Index rows_together(Index columns) {
  return std::min<Index>(l1_floats / std::max<Index>(columns, 1), most_rows);
}
// Floats, in whole lines.
constexpr Index row_scratch(Index columns) { return std::max((columns + 15) / 16 * 16, l1_floats); }

// One thread's rows.
struct RowsPart {
  Index begin, end, columns;
  float* scratch;                                           // 64-byte aligned, row_scratch() floats
  bool stream;                                              // stores go past the caches
  bool in_l2;                                               // all lies in the L2; else the next row is fetched ahead
  void (*in_doubles)(const void* of, Index row) = nullptr;  // a row in doubt, of a text that knows no units
  const void* of = nullptr;
};

// One thread's rows of a text that goes across them, and its columns: all of them where rows leave numbers.
struct AcrossPart {
  Index begin, end, columns, first, last;
  double* sums;  // one a column
  void (*in_doubles)(const void* of, Index row, double* sums) = nullptr;
  const void* of = nullptr;
};

}  // namespace ridge::tile::cpu
