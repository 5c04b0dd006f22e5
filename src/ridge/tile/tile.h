// The types of the tile language: tiles, ranges and views. Each target decides where their bytes are stored. A kernel
// is a tile pipeline: a work item owns one tile of the output, a stage holds the tiles of one step of k, and three
// functions describe the work:
//
//   load:    at.load(s.a, g.a, at.row(), k); at.load(s.b, g.b, at.col(), k);
//   compute: at.mma(acc, s.a, transposed(s.b));     // issues the product without waiting for it
//   store:   at.store(g.d, acc, at.row(), at.col());
//
// Hopper keeps tiles in shared memory and sums in registers. A CPU has neither: its tile only records which part of a
// matrix was requested, the multiply reads that part, and sums are in memory, so that one stage of k can serve many
// work items. Ranges are typed by axis (`Row`, `Col`), so a target knows which work items share a tile.
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

struct Range {  // begin … begin + size - 1; at most as large as the tile, smaller at the matrix's edge
  Index begin = 0, size = 0;
  TILE_FN constexpr Index end() const { return begin + size; }
  bool operator==(const Range&) const = default;
};
struct Row : Range {};  // a range of the output's rows
struct Col : Range {};  // a range of the output's columns

#ifndef __CUDACC__  // The data that a CPU target adds to a view; sm90/storage.h has Hopper's.
struct InputOnTarget {
  DType dtype = DType::f32;  // element type of the matrices of a kernel that runs in steps (steps.h)
};
// Input of an epilogue: a tile of sums (f32 or int32) and the output tile that it writes.
struct EpilogueTile {
  const Epilogue& finish;
  const void* sums;
  bool are_int32;
  Index sums_stride;
  void* out;  // first element of the view; strides are in elements of the output's type
  Index row_stride, col_stride, batch_stride;
  Row row;
  Col col;
  Index batch;
};
struct OutputOnTarget {
  Epilogue finish{};
  void (*write)(const EpilogueTile&) = nullptr;  // epilogue; if null, sums are stored unchanged in the view's type
};
#endif

// A matrix in memory: element (r, c) of batch i at data + i*batch_stride + r*row_stride + c*col_stride, in elements.
struct Matrix {
  const void* data = nullptr;
  Index rows = 0, cols = 0;
  Index row_stride = 0, col_stride = 1, batch_stride = 0;
  const void* prepacked = nullptr;  // the same values in the target's packed order, or null if not prepacked
};

// A matrix divided into tiles of this shape. Its rows run along `Along` (Row or Col) of the output, its columns are k.
// If `constant`, no earlier kernel writes it (weights), so a target may load it before earlier kernels have ended.
inline constexpr bool constant = true;
template <class Tile_, class Along_, bool constant_ = false> struct GlobalView : Matrix {
  using Tile = Tile_;
  using Along = Along_;
  InputOnTarget on_target{};
};

// The output. Its strides may be those of the transpose, so that exchanging the operands needs no separate kernel.
template <class T, int M, int N> struct OutputView {
  using type = T;
  static constexpr int rows_of_tile = M, cols_of_tile = N;
  T* data = nullptr;
  Index rows = 0, cols = 0;
  Index row_stride = 0, col_stride = 1, batch_stride = 0;
  OutputOnTarget on_target{};
};

#ifndef __CUDACC__
// A load that was requested: rows `along` and columns `k` of a matrix become the tile's rows from `first_row` on.
struct RecordedLoad {
  const Matrix* matrix = nullptr;
  Range along, k;
  int first_row = 0;
};
template <class T, int Rows, int Cols> struct SharedTile {
  using type = T;
  static constexpr int rows = Rows, cols = Cols, max_parts = 2;
  RecordedLoad parts[max_parts];
  int count = 0;
};

// M x N sums of the products so far. `WarpgroupsPerTile` groups of threads own it together (1 on a CPU).
template <int M, int N, int WarpgroupsPerTile = 1, class Sum_ = float> struct Accumulator {
  using Sum = Sum_;
  static constexpr int rows = M, cols = N;
  Sum* sums = nullptr;
  Index stride = 0;
  bool live = false;  // true once a product has written it; the first product overwrites
};
#endif

// Rows of a tile. Two matrices can be loaded into one tile and multiplied by one instruction (gated products).
template <int First, int Count, class Tile_> struct TileRows {
  using Tile = Tile_;
  static constexpr int first = First, count = Count;
  Tile& tile;
};
template <int First, int Count, class Tile> TILE_FN TileRows<First, Count, Tile> rows(Tile& tile) {
  static_assert(First >= 0 && Count > 0 && First + Count <= Tile::rows,
                "rows<first, count>(tile): the rows must lie inside the tile");
  return {tile};
}

template <class Tile> struct Transposed { const Tile& tile; };
template <class Tile> TILE_FN Transposed<Tile> transposed(const Tile& tile) { return {tile}; }

}  // namespace ridge::tile
