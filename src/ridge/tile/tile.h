// The types by which kernels are written for all targets: tiles, ranges and views. Each target decides where their
// bytes are stored. A kernel is a tile pipeline: a work item owns one tile of the output, a stage holds the tiles of
// one step of k, and three functions describe the work:
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
#include "ridge/tile/sum_pieces.h"
#ifdef __CUDACC__
#include "ridge/tile/sm90/storage.h"
#endif

namespace ridge::tile {

using Index = std::int64_t;

struct Range {  // indices begin … begin + size - 1; a tile's range is shorter at the edge of the matrix
  Index begin = 0, size = 0;
  TILE_FN constexpr Index end() const { return begin + size; }
  bool operator==(const Range&) const = default;
};
struct Row : Range {};  // a range of the output's rows
struct Col : Range {};  // a range of the output's columns

#ifndef __CUDACC__  // Data that a CPU target adds to each view. Those of Hopper are in sm90/storage.h.
struct TargetInput {
  DType dtype = DType::f32;  // element type of the view, for kernels that run in steps (steps.h)
};
// Arguments of an epilogue: a tile of sums (f32 or int32) and the output tile to write.
struct EpilogueTile {
  const Epilogue& epilogue;
  const void* sums;
  bool are_int32;
  Index sums_stride;
  void* out;  // first element of the view; strides are in elements of the output's type
  Index row_stride, col_stride, batch_stride;
  Row row;
  Col col;
  Index batch;
};
struct TargetOutput {
  Epilogue epilogue{};
  void (*write_tile)(const EpilogueTile&) = nullptr;  // if null, sums are converted to the view's type and stored
  bool only_rounds_to_bf16 = false;                   // true if write_tile only rounds the sums to bf16 and stores them
};
#endif

// The memory to which a computed operand is written, in elements: element (k, column) at data + column / panel *
// panel_stride + k / per_unit * row_stride + column % panel * per_unit + k % per_unit. The first k is a multiple of
// per_unit, and the last unit is filled up with zeros. Writes may extend to the next multiple of 64 bytes in a panel.
struct CopyTarget {
  void* data = nullptr;
  Index row_stride = 0, panel = 0, panel_stride = 0;
  int per_unit = 1;  // 2 only if the operand writes pairs
};
// Rows of k of some columns in memory: the first column of row i is at data + offsets[i], in elements, and the other
// columns follow it.
struct PlacedRows {
  const void* data = nullptr;
  const Index* offsets = nullptr;
};
// A right operand whose elements no memory holds, such as the windows of a convolution, or weights that are stored in
// another format. A CPU calls `copy` to pack some rows of k for some columns.
struct ComputedOperand {
  void (*copy)(const ComputedOperand& operand, Index batch, Range k, Range columns, const CopyTarget& to) = nullptr;
  // Places some rows of k for some columns in memory of the calling thread, which holds them until the next call of
  // `place` or `copy`. Returns null addresses if `copy` would write fewer elements. Is null if no columns can be
  // placed.
  PlacedRows (*place)(const ComputedOperand& operand, Index batch, Range k, Range columns) = nullptr;
  bool writes_pairs = false;  // true if `copy` can write units of two elements
  // True if `copy` writes columns that are contiguous along k (`panel` and `row_stride` are 1), false if it writes rows
  // of adjacent columns.
  bool along_k = false;
  Index k_multiple = 1;  // `copy` takes ranges of k that begin and end at multiples of this number of elements
  // Blocks with scales (base/block_scale.h), or null. A target may read them instead of calling `copy`; the strides of
  // the matrix apply to them.
  const void* blocks = nullptr;
  DType blocks_dtype = DType::mxfp8;
};

// A matrix in memory: element (r, c) of batch i at data + i*batch_stride + r*row_stride + c*col_stride, in elements.
struct Matrix {
  const void* data = nullptr;
  Index rows = 0, cols = 0;
  Index row_stride = 0, col_stride = 1, batch_stride = 0;
  const void* prepacked = nullptr;            // the same values in the target's packed order, or null if not prepacked
  const ComputedOperand* computed = nullptr;  // if not null, makes the elements; data and strides are unused
};

// The scales of an operand of e4m3_128, which follow its elements in memory (base/block_scale.h): that of block b of
// line r of product i is data[i * batch_stride + r * line_stride + b], for `blocks` blocks of each line.
struct BlockScales {
  const float* data = nullptr;
  Index lines = 0, line_stride = 0, batch_stride = 0;
  int blocks = 0;
  bool has_aligned_quads = false;  // True if each group of four scales of a line begins at a multiple of 16 bytes
};

// An operand divided into tiles of type Tile_. Its rows correspond to the output's rows or columns (`Along`: Row or
// Col), its columns to k. If `constant`, no earlier kernel writes the operand (weights), so a target may load it early.
inline constexpr bool constant = true;
template <class Tile_, class Along_, bool constant_ = false> struct GlobalView : Matrix {
  using Tile = Tile_;
  using Along = Along_;
  TargetInput target{};
};

// The output matrix. Its strides may be those of its transpose, so that exchanging A and B needs no other kernel.
template <class T, int M, int N> struct OutputView {
  using type = T;
  static constexpr int rows_of_tile = M, cols_of_tile = N;
  T* data = nullptr;
  Index rows = 0, cols = 0;
  Index row_stride = 0, col_stride = 1, batch_stride = 0;
  TargetOutput target{};
};

#ifndef __CUDACC__
// A load that was requested: rows `rows` and columns `k` of a matrix become the tile's rows from `first_row` on.
struct RecordedLoad {
  const Matrix* matrix = nullptr;
  Range rows, k;
  int first_row = 0;
};
template <class T, int Rows, int Cols> struct SharedTile {
  using type = T;
  static constexpr int rows = Rows, cols = Cols, max_parts = 2;
  RecordedLoad parts[max_parts];
  int part_count = 0;
};

// M x N sums of products. `WarpgroupsPerTile` groups of threads own the sums together (1 on a CPU).
template <int M, int N, int WarpgroupsPerTile = 1, class Sum_ = float> struct Accumulator {
  using Sum = Sum_;
  static constexpr int rows = M, cols = N;
  Sum* sums = nullptr;
  Index stride = 0;
  bool is_written = false;  // true once a product has written the sums; the first product overwrites them
};
#endif

// Sums that threads add in f32, for operands whose sums tensor cores round too early.
template <int M, int N, int WarpgroupsPerTile> struct StagedAccumulator : Accumulator<M, N, WarpgroupsPerTile> {
  static constexpr SumPieces pieces{M / WarpgroupsPerTile, N, WarpgroupsPerTile};
#ifdef __CUDACC__
  float piece[pieces.buffers()][pieces.max_columns() / 2];
  TILE_FN StagedAccumulator() {
#pragma unroll
    for (int i = 0; i < this->size; ++i) this->v[i] = 0;
  }
#endif
};

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
