// Types of kernels whose work items run in steps. A work item owns some rows and keeps some tiles resident for all
// steps
// (`Resident`); each step loads further tiles through rings; registers hold a state from step to step (`State`). In
// attention 128 rows of q stay resident while 32 tiles of keys and values are processed. A kernel defines:
//
//   load_resident: at.load(h.q, g.q, at.matrix(), at.row());
//   load:          at.load(s.k, g.k, at.matrix(), first);      // waits until the slot of k's ring is free
//   compute:       at.mma(p, h.q, transposed(s.k));            // waits for the tile and issues the product
//                  at.wait_for_product(p);               // waits for the product and releases its tiles
//                  at.reduce(row_max, p, Max{}); at.map(p, f, row_max); at.copy(x.p, p);
//   store:         at.store(g.o, x.o);
//   merge_states:  at.map(x.o, f, other.o);  // combines two states if the steps of a tile are divided
//   visit_state:   at.visit_state(x.o);      // lists the members of the state that `merge_states` reads
//
// Each tile of a Stage has its own ring (`RingTile`), so that a kernel may load the values of a step one step after its
// keys. `compute` is compiled three times: for the first step (`At::first`), for the steps in the middle, and for an
// extra step at the end (`At::last`), which has no tile for the first product.
#pragma once

#include "ridge/tile/reductions.h"
#include "ridge/tile/tile.h"

namespace ridge::tile {

// Number of steps of an item that load tiles, at least 1. An extra step follows, in which `At::last` is true.
struct StepCount {
  int count = 1;
  int steps_per_round = 1;  // for kernels whose steps form rounds, such as one round per query head
};

// A tile of a Stage, the number of its ring, and the number of products per step that read the tile (0 if threads do).
template <int number, class Tile, int products_ = 1> struct RingTile : Tile {
  static constexpr int ring = number, products = products_;
};

#ifdef __CUDACC__
// A tile that is loaded once and stays in shared memory for all steps of a work item.
template <class T, int Rows, int Cols> using ResidentTile = SharedTile<T, Rows, Cols>;
#else
template <class T, int Rows, int Cols> struct ResidentTile;
#endif
// The type in which products of tiles of T are accumulated.
template <class T> struct AccumulatedType { using type = float; };
template <int M, int N, int WarpgroupsPerTile, class T> struct RegisterOperand;  // left operand of a product

// Initial values of accumulators with one number per row.
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
// Page table of a CPU target: row r is row r % page_rows of page table[r / page_rows]. If `table` is null, the matrix
// is not paged.
struct PageTable {
  const int* table = nullptr;
  Index page_rows = 1, page_stride = 0;  // rows of a page, elements between pages
};
#endif
template <class Tile_> struct MatricesView : Matrices {
  using Tile = Tile_;
  TargetInput target{};
#ifndef __CUDACC__
  PageTable page_table{};
#endif
};
// Matrices that a kernel stores in tiles of M x N.
template <class T, int M, int N> struct MatricesOut : Matrices {
  using type = T;
  TargetInput target{};
};

// Layout of matrices with different numbers of rows. A load passes the number of rows of its matrix; later rows read as
// zeros. A tile may have several lines per row, such as one line for each head of a group.
struct Ragged {
  int lines_per_row = 1;
  bool may_end_early = false;   // true if matrices may have fewer than `rows` rows; then lines_per_row is 1
  const int* starts = nullptr;  // if not null, matrices (i, ·) are rows starts[i] … starts[i + 1] - 1 of one matrix
  const int* pages = nullptr;   // if not null, row r is row r % rows of page pages[i * pages_per_matrix + r / rows]
  int pages_per_matrix = 0;
};
template <class Tile_> struct RaggedView : MatricesView<Tile_>, Ragged {
  int box_lines = 0;  // lines of a box that the copy engine loads
};
template <class T, int M, int N> struct RaggedOut : MatricesOut<T, M, N>, Ragged { Index line_stride = 0; };
template <class View> TILE_FN int row_count(const View& view, int matrix) {
  if (view.starts == nullptr) return static_cast<int>(view.rows);
  const int* const begin = view.starts + matrix / static_cast<int>(view.inner);
  return begin[1] - begin[0];
}

// Sums in global memory in the register layout of the thread groups: [matrix][tile][group][register / 4][thread][4]. If
// adds are ordered (`config.ordered`), `add_counts` counts the adds to each group's part of a tile so far.
struct SumsInMemory {
  float* data = nullptr;
  int* add_counts = nullptr;
  int tiles_per_matrix = 0;  // number of tiles of one matrix
};

struct IntRange {  // integers begin … end - 1
  int begin = 0, end = 0;
};

// A work item: its matrix, its first row, and the part of the tile's steps that it runs. If `is_valid` is false, no
// item is left.
struct StepItem {
  int matrix = 0, row = 0;
  int part = 0, tile = 0;  // `tile` is the number of the tile of rows, the same for all parts
  bool is_valid = false;
};

// Order of the work items: groups of `group_matrices` matrices, whose keys and values fit in the L2 together; within a
// group the last rows first, because under a causal mask they take longest. Blocks take items one by one. If `parts` >
// 1, the steps of a tile of rows are divided among `parts` items; the last to finish merges their states in order.
struct ItemOrder {
  int matrices = 0, rows = 0;  // number of matrices, and of rows of each matrix
  int tile_rows = 1, group_matrices = 1, parts = 1;
  bool ascending = false;  // true if the first rows come first instead of the last
  int first_row = 0;       // rows before it have no items; a multiple of tile_rows
  TILE_FN int tile_count() const { return (rows - first_row + tile_rows - 1) / tile_rows; }
  TILE_FN int item_count() const { return matrices * tile_count() * parts; }
  template <bool can_divide_steps = true> TILE_FN StepItem item_at(int number) const {
    if (number >= item_count()) return {};
    const int tile = can_divide_steps ? number / parts : number, part = number - tile * parts;
    const int items_per_group = group_matrices * tile_count(), first = tile / items_per_group * group_matrices,
              index_in_group = tile % items_per_group;
    const int group_size = matrices - first < group_matrices ? matrices - first : group_matrices;
    const int group_row = index_in_group / group_size;
    const int row = first_row + (ascending ? group_row : tile_count() - 1 - group_row) * tile_rows;
    return {first + index_in_group % group_size, row, part, tile, true};
  }
  // Returns the steps of a part of `count` steps. If there are more parts than steps, the later parts have none.
  TILE_FN IntRange steps_of_part(int part, int count) const {
    const int used = nonempty_parts(count);
    if (part >= used) return {};
    return {static_cast<int>(static_cast<Index>(count) * part / used),
            static_cast<int>(static_cast<Index>(count) * (part + 1) / used)};
  }
  TILE_FN int nonempty_parts(int count) const { return parts < count ? parts : count; }
};

}  // namespace ridge::tile
