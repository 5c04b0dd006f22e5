// The words of the tile language: what a tile, a place and a view are, never where their bytes lie (that is the
// target's business). A kernel is a tile pipeline: a work item owns one tile of the output, a stage holds the tiles
// that are multiplied at once, and load, compute and store are the three things that happen to them:
//
//   load:    at.load(s.a, g.a, at.row(), k); at.load(s.b, g.b, at.col(), k);
//   compute: at.mma(acc, s.a, transposed(s.b));     // issues, never waits
//   store:   at.store(g.d, acc, at.row(), at.col());
//
// Hopper keeps tiles in shared memory and sums in registers. A CPU has neither: there a tile is the announcement of
// what was asked for, which the multiply resolves, and sums lie in memory, so that one stage of k can serve many work
// items. Places are typed by axis, so a target can tell which work items share a tile.
#pragma once

#include <cstdint>

#include "ridge/base/dtype.h"
#include "ridge/tile/epilogue.h"
#include "ridge/tile/function.h"
#ifdef __CUDACC__
#include "ridge/tile/sm90/storage.h"
#endif

namespace ridge::tile {

using Index = std::int64_t;

struct Range {  // begin … begin + size - 1; a target may hand out less than the tile's extent, never more
  Index begin = 0, size = 0;
  TILE_FN constexpr Index end() const { return begin + size; }
  bool operator==(const Range&) const = default;
};
struct Row : Range {};  // a stretch of the output's rows
struct Col : Range {};  // … and of its columns

#ifndef __CUDACC__  // what a target adds to a view; Hopper: storage.h
struct InputOnTarget {
  DType dtype = DType::f32;  // of the matrices of a text that takes steps
};
// A tile of sums that becomes a tile of the output; `sums` are f32, or int32.
struct Finishing {
  const Finish& finish;
  const void* sums;
  bool are_integers;
  Index sums_stride;
  void* out;  // where the view's data begins; strides in elements as stored
  Index row_stride, col_stride, batch_stride;
  Row row;
  Col col;
  Index batch;
};
struct OutputOnTarget {
  Finish finish{};
  void (*write)(const Finishing&) = nullptr;  // null: sums are stored as they are, as the view's type
};
#endif

// A matrix in memory: element (r, c) of batch i at data + i*batch_stride + r*row_stride + c*col_stride, in elements.
struct Matrix {
  const void* data = nullptr;
  Index rows = 0, cols = 0;
  Index row_stride = 0, col_stride = 1, batch_stride = 0;
  const void* prepacked = nullptr;  // the same values in the target's own order, made once; null: there are none
};

// A matrix seen in tiles of this shape, whose first coordinate runs along `Along` (Row or Col) of the output and whose
// second is k. `constant`: no earlier kernel writes it (weights), so a target may read it ahead of time.
inline constexpr bool constant = true;
template <class Tile_, class Along_, bool constant_ = false> struct GlobalView : Matrix {
  using Tile = Tile_;
  using Along = Along_;
  InputOnTarget on_target{};
};

// The output. Its strides may be those of the transpose: an exchange of operands on the host needs no other kernel.
template <class T, int M, int N> struct OutputView {
  using type = T;
  static constexpr int rows_of_tile = M, cols_of_tile = N;
  T* data = nullptr;
  Index rows = 0, cols = 0;
  Index row_stride = 0, col_stride = 1, batch_stride = 0;
  OutputOnTarget on_target{};
};

#ifndef __CUDACC__
// What `load` asked for: rows `along` and columns `k` of a matrix, as rows first … of the tile.
struct Announced {
  const Matrix* matrix = nullptr;
  Range along, k;
  int first = 0;
};
template <class T, int Rows, int Cols> struct SharedTile {
  using type = T;
  static constexpr int rows = Rows, cols = Cols, most_parts = 2;
  Announced parts[most_parts];
  int count = 0;
};

// M x N sums of the products so far. `Sharers`: how many groups of threads own it together (1 on a CPU).
template <int M, int N, int Sharers = 1, class Sum_ = float> struct Accumulator {
  using Sum = Sum_;
  static constexpr int rows = M, cols = N;
  Sum* sums = nullptr;
  Index stride = 0;
  bool live = false;  // false: holds nothing yet, the first product overwrites
};
#endif

// Some rows of a tile, so that two matrices can be loaded into one and multiplied at once (gates).
template <int First, int Count, class Tile_> struct Part {
  using Tile = Tile_;
  static constexpr int first = First, count = Count;
  Tile& tile;
};
template <int First, int Count, class Tile> TILE_FN Part<First, Count, Tile> rows(Tile& tile) {
  static_assert(First >= 0 && Count > 0 && First + Count <= Tile::rows,
                "rows<first, count>(tile): the rows must lie inside the tile");
  return {tile};
}

template <class Tile> struct Transposed { const Tile& tile; };
template <class Tile> TILE_FN Transposed<Tile> transposed(const Tile& tile) { return {tile}; }

}  // namespace ridge::tile
