// Words of texts whose items take steps: a work item owns some rows, holds some tiles all the while (`Held`), and goes
// through steps, each of which brings tiles by way of rings; a state in registers is carried from step to step.
// Attention is one: 128 rows of q are held while 32 tiles of keys and values go by.
//
//   hold:    at.load(h.q, g.q, at.matrix(), at.row());
//   load:    at.load(s.k, g.k, at.matrix(), first);      // waits until the slot of k's ring is free
//   compute: at.mma(p, h.q, transposed(s.k));            // waits for the tile, issues, never waits for the product
//            at.settle(p);                               // the product has ended, and its tiles are given back
//            at.reduce(most, p, Max{}); at.map(p, f, most); at.copy(x.p, p);
//   store:   at.store(g.o, x.o);
//   merge:   at.map(x.o, f, other.o);                   // where several items share the steps of the same rows
//   carry:   at.carry(x.o); at.carry(x.most);           // what of the state merges
//
// Each tile of a Stage goes round in a ring of its own (`InRing`), so a text may load the values of a step one step
// after its keys. `compute` is compiled three times: for the first step, those in the middle, and the one behind the
// last, which brings nothing for the first product (`At::first`, `At::last`).
#pragma once

#include "ridge/tile/joins.h"
#include "ridge/tile/tile.h"

namespace ridge::tile {

// The steps of an item that bring tiles, at least one. One more comes behind them, in which `At::last` holds.
struct Steps {
  int count = 1;
  int round = 1;  // of a round, where a text goes round
};

// A tile of a Stage with the number of its ring, and how many products of a step read it: none where threads do.
template <int number, class Tile, int products_ = 1> struct InRing : Tile {
  static constexpr int ring = number, products = products_;
};

#ifdef __CUDACC__
// A tile that is held, not in a ring.
template <class T, int Rows, int Cols> using HeldTile = SharedTile<T, Rows, Cols>;
#else
template <class T, int Rows, int Cols> struct HeldTile;
#endif
// What products of tiles of T are summed as.
template <class T> struct SumOf { using type = float; };
template <int M, int N, int Sharers, class T> struct Operands;  // a left operand that no tile holds

// What numbers a row begin as.
struct Lowest {};
struct Nought {};
inline constexpr Lowest lowest{};
inline constexpr Nought nought{};

// Matrices [rows, cols], contiguous along cols, one for each of outer * inner pairs: matrix i is the one at (i / inner,
// i % inner). Strides are in elements.
struct Matrices {
  const void* data = nullptr;
  Index rows = 0, cols = 0, row_stride = 0;
  Index outer = 1, inner = 1, outer_stride = 0, inner_stride = 0;
};
#ifndef __CUDACC__
// Where rows lie on a CPU: as row_stride says, or row r in row r % rows of page table[r / rows].
struct PagesInMemory {
  const int* table = nullptr;
  Index rows = 1, stride = 0;
};
#endif
template <class Tile_> struct MatricesView : Matrices {
  using Tile = Tile_;
  InputOnTarget on_target{};
#ifndef __CUDACC__
  PagesInMemory in_pages{};
#endif
};
// Rows of `M` by `N` that a text stores.
template <class T, int M, int N> struct MatricesOut : Matrices {
  using type = T;
  InputOnTarget on_target{};
};

// How matrices differ among each other. A load names how many rows its matrix has; what lies behind these reads as
// zeros. A tile may have several lines of each row, such as a row of each head of a group.
struct Ragged {
  int group = 1;                // lines of a row
  bool ends = false;            // matrices may end before `rows`; then the group is 1
  const int* starts = nullptr;  // matrices (i, ·) have rows starts[i] … starts[i + 1] - 1 of what lies there, not null
  const int* pages = nullptr;  // row r of these is row r % rows of the page pages[i * pages_each + r / rows], not null
  int pages_each = 0;
};
template <class Tile_> struct RaggedView : MatricesView<Tile_>, Ragged {
  int lines = 0;  // of a box that the copy engine loads
};
template <class T, int M, int N> struct RaggedOut : MatricesOut<T, M, N>, Ragged { Index line_stride = 0; };
template <class View> TILE_FN int rows_of(const View& view, int matrix) {
  if (view.starts == nullptr) return static_cast<int>(view.rows);
  const int* const begin = view.starts + matrix / static_cast<int>(view.inner);
  return begin[1] - begin[0];
}

// Sums that lie in memory as the registers of the groups that share them do: of matrix i, tile by tile, group by group,
// thread by thread four at a time. Where adds are in order (`config.ordered`), `turns` counts those that a group has
// made to a tile.
struct SumsInMemory {
  float* data = nullptr;
  int* turns = nullptr;
  int tiles = 0;  // of a matrix
};

struct Span {  // begin … end - 1
  int begin = 0, end = 0;
};

// Which matrix, and from which of its rows on, a work item owns, and which part of its steps; none where `is_real` is
// false.
struct StepItem {
  int matrix = 0, row = 0;
  int part = 0, tile = 0;  // of all parts of a tile of rows the number is the same
  bool is_real = false;
};

// Work items in an order: `width` matrices at a time, whose keys and values the L2 holds together, and of these the
// last rows first, for under a causal mask they take longest. Blocks take items one by one. With `parts` the steps of
// a tile of rows are as many items, whose states are merged in their order by whichever ends last.
struct StepOrder {
  int matrices = 0, rows = 0;  // rows of one matrix
  int tile_rows = 1, width = 1, parts = 1;
  bool ascending = false;  // first rows first
  int first_row = 0;       // items have rows from here on, a multiple of tile_rows
  TILE_FN int tiles() const { return (rows - first_row + tile_rows - 1) / tile_rows; }
  TILE_FN int items() const { return matrices * tiles() * parts; }
  template <bool has_parts = true> TILE_FN StepItem item(int number) const {
    if (number >= items()) return {};
    const int tile = has_parts ? number / parts : number, part = number - tile * parts;
    const int each = width * tiles(), first = tile / each * width, in = tile % each;
    const int wide = matrices - first < width ? matrices - first : width;
    const int from = in / wide;
    const int row = first_row + (ascending ? from : tiles() - 1 - from) * tile_rows;
    return {first + in % wide, row, part, tile, true};
  }
  // Of `count` steps those of a part: at least one each for the first `count` parts, if there are more of these.
  TILE_FN Span steps_of(int part, int count) const {
    const int real = real_parts(count);
    if (part >= real) return {};
    return {static_cast<int>(static_cast<Index>(count) * part / real),
            static_cast<int>(static_cast<Index>(count) * (part + 1) / real)};
  }
  TILE_FN int real_parts(int count) const { return parts < count ? parts : count; }
};

}  // namespace ridge::tile
