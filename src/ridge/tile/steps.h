// Types of kernels whose work items run in steps: a work item owns some rows, keeps some tiles resident for all steps
// (`Held`), and each step loads further tiles through rings; a state in registers is passed from step to step.
// Attention is one: 128 rows of q stay resident while 32 tiles of keys and values are processed.
//
//   hold:    at.load(h.q, g.q, at.matrix(), at.row());
//   load:    at.load(s.k, g.k, at.matrix(), first);      // waits until the slot of k's ring is free
//   compute: at.mma(p, h.q, transposed(s.k));            // waits for the tile and issues the product
//            at.wait_for_product(p);                     // waits for the product and releases its tiles
//            at.reduce(most, p, Max{}); at.map(p, f, most); at.copy(x.p, p);
//   store:   at.store(g.o, x.o);
//   merge:   at.map(x.o, f, other.o);                   // combines two states if the steps of a tile are divided
//   carry:   at.carry(x.o); at.carry(x.most);           // lists the parts of the state that `merge` reads
//
// Each tile of a Stage has a ring of its own (`RingTile`), so a kernel may load the values of a step one step after its
// keys. `compute` is compiled three times: for the first step, for those in the middle, and for one extra step after
// the last, which has no tile for the first product (`At::first`, `At::last`).
#pragma once

#include "ridge/tile/reductions.h"
#include "ridge/tile/tile.h"

namespace ridge::tile {

// Number of steps of an item that load tiles, at least 1. One more step follows, in which `At::last` is true.
struct StepCount {
  int count = 1;
  int steps_per_round = 1;  // steps of one round, for kernels that loop in rounds
};

// A tile of a Stage with the number of its ring and of the products of a step that read it (0 if threads read it).
template <int number, class Tile, int products_ = 1> struct RingTile : Tile {
  static constexpr int ring = number, products = products_;
};

#ifdef __CUDACC__
// A tile that stays resident for a whole work item, not in a ring.
template <class T, int Rows, int Cols> using ResidentTile = SharedTile<T, Rows, Cols>;
#else
template <class T, int Rows, int Cols> struct ResidentTile;
#endif
// The type in which products of tiles of T are accumulated.
template <class T> struct AccumulatedType { using type = float; };
template <int M, int N, int WarpgroupsPerTile, class T> struct RegisterOperand;  // a left operand in registers

// Initial values of a number per row.
struct NegativeInfinity {};
struct Zero {};
inline constexpr NegativeInfinity negative_infinity{};
inline constexpr Zero zero_sum{};

// A batch of outer * inner matrices [rows, cols], contiguous along cols: matrix i has the index (i / inner, i % inner).
// Strides are in elements.
struct Matrices {
  const void* data = nullptr;
  Index rows = 0, cols = 0, row_stride = 0;
  Index outer = 1, inner = 1, outer_stride = 0, inner_stride = 0;
};
#ifndef __CUDACC__
// Page table of a CPU target: row r is row r % rows of page table[r / rows]. If `table` is null, row_stride applies.
struct PageTable {
  const int* table = nullptr;
  Index rows = 1, stride = 0;
};
#endif
template <class Tile_> struct MatricesView : Matrices {
  using Tile = Tile_;
  InputOnTarget on_target{};
#ifndef __CUDACC__
  PageTable in_pages{};
#endif
};
// Matrices that a kernel stores in tiles of M x N.
template <class T, int M, int N> struct MatricesOut : Matrices {
  using type = T;
  InputOnTarget on_target{};
};

// Layout of matrices of different lengths. A load names the rows of its matrix; rows after these read as zeros. A tile
// may hold several lines of each row, such as one line for each head of a group.
struct Ragged {
  int group = 1;                // lines of a row
  bool ends = false;            // true if matrices may end before `rows`; then the group is 1
  const int* starts = nullptr;  // if not null, matrices (i, ·) are rows starts[i] … starts[i + 1] - 1 of a common one
  const int* pages = nullptr;   // if not null, row r is row r % rows of page pages[i * pages_per_matrix + r / rows]
  int pages_per_matrix = 0;
};
template <class Tile_> struct RaggedView : MatricesView<Tile_>, Ragged {
  int lines = 0;  // lines of a box that the copy engine loads
};
template <class T, int M, int N> struct RaggedOut : MatricesOut<T, M, N>, Ragged { Index line_stride = 0; };
template <class View> TILE_FN int row_count(const View& view, int matrix) {
  if (view.starts == nullptr) return static_cast<int>(view.rows);
  const int* const begin = view.starts + matrix / static_cast<int>(view.inner);
  return begin[1] - begin[0];
}

// Sums in global memory, in the register layout of the groups that own them: for each matrix, tile by tile, group by
// group, four numbers of each thread at a time. If adds are ordered (`config.ordered`), `add_counts` has the number of
// adds that were made to each group's part of a tile.
struct SumsInMemory {
  float* data = nullptr;
  int* add_counts = nullptr;
  int tiles_per_matrix = 0;  // number of tiles of one matrix
};

struct IntRange {  // begin … end - 1
  int begin = 0, end = 0;
};

// A work item: its matrix, its first row, and which part of the tile's steps it runs. If `is_real` is false, there is
// no item left.
struct StepItem {
  int matrix = 0, row = 0;
  int part = 0, tile = 0;  // number of the tile of rows is the same for all of its parts
  bool is_real = false;
};

// Order of the work items: `width` matrices at a time, whose keys and values fit in the L2 together, and of these the
// last rows first, because under a causal mask they take longest. Blocks take items one by one. If `parts` > 1, the
// steps of a tile of rows are divided among that many items; the last one to finish merges their states in order.
struct StepOrder {
  int matrices = 0, rows = 0;  // rows of one matrix
  int tile_rows = 1, width = 1, parts = 1;
  bool ascending = false;  // true if the first rows come first
  int first_row = 0;       // first row of all items, a multiple of tile_rows
  TILE_FN int tile_count() const { return (rows - first_row + tile_rows - 1) / tile_rows; }
  TILE_FN int item_count() const { return matrices * tile_count() * parts; }
  template <bool has_parts = true> TILE_FN StepItem item_at(int number) const {
    if (number >= item_count()) return {};
    const int tile = has_parts ? number / parts : number, part = number - tile * parts;
    const int items_per_group = width * tile_count(), first = tile / items_per_group * width,
              index_in_group = tile % items_per_group;
    const int group_matrices = matrices - first < width ? matrices - first : width;
    const int group_row = index_in_group / group_matrices;
    const int row = first_row + (ascending ? group_row : tile_count() - 1 - group_row) * tile_rows;
    return {first + index_in_group % group_matrices, row, part, tile, true};
  }
  // Returns the steps of a part, of `count` in all. If there are more parts than steps, the later parts get none.
  TILE_FN IntRange steps_of(int part, int count) const {
    const int real = used_parts(count);
    if (part >= real) return {};
    return {static_cast<int>(static_cast<Index>(count) * part / real),
            static_cast<int>(static_cast<Index>(count) * (part + 1) / real)};
  }
  TILE_FN int used_parts(int count) const { return parts < count ? parts : count; }
};

}  // namespace ridge::tile
