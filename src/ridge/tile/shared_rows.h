// Rows that a product's kernel shares with other ranks. It walks the result's rows in pieces, one of each rank.
// Where A is gathered, the walk begins with this rank's own rows, and a piece comes in strips of its columns, each of
// which is multiplied as soon as it has come. Where the result is scattered, it goes on in chunks, strips of columns of
// a group of rows, each added to what the ranks before this one in a piece's order have made of it, and the walk ends
// with this rank's own piece: chunks are stored here and sent on to the rank that adds next, or stored where the
// piece's rank wants them. Words in memory say what has come.
#pragma once

#include <cstdint>

#include "ridge/tile/function.h"

namespace ridge::tile {

struct RowWalk {
  static constexpr int never = 2147483647;
  int rows = 0;                  // of a chunk; 0: no rows are shared
  int cols = never, strips = 1;  // columns of a chunk, of A or of D, but for a group's last one; chunks of a group
  int piece = 0;                 // rows of a piece, whole groups
  int of_piece = 0;              // chunks
  int first = 0;                 // the row with which the walk begins; behind the last one it goes on with row 0
  int all = 0;                   // rows: whole pieces

  TILE_FN int walked(int row) const { return row < first ? row - first + all : row - first; }
  // Which piece of the walk a row lies in, and where. By subtractions: a division takes registers that hold sums.
  struct Place {
    int piece, row;
  };
  TILE_FN Place place(int row) const {
    Place out{0, walked(row)};
    for (; out.row >= piece; out.row -= piece) ++out.piece;
    return out;
  }
  // The number of an element's chunk: of its piece, and in the order of the walk.
  TILE_FN int number_in_piece(int row_of_piece, int col) const {
    int out = 0;
    for (; row_of_piece >= rows; row_of_piece -= rows) out += strips;
    for (; col >= cols; col -= cols) ++out;
    return out;
  }
  TILE_FN int number(int row, int col) const {
    const Place at = place(row);
    return at.piece * of_piece + number_in_piece(at.row, col);
  }
  // Columns of a strip, of a result that has so many.
  TILE_FN int width(int strip, int columns) const { return strip + 1 < strips ? cols : columns - strip * cols; }
};

// Rows of A, whole pieces.
struct GatheredRows : RowWalk {
  const void* own = nullptr;  // where the walk's first piece lies; the others lie in A
  // Of each chunk behind the first piece, in the order of the walk: 1 as soon as it has come.
  const std::uint32_t* come = nullptr;
};

// Rows of D. Words that kernels write count elements, so that whoever waits for a chunk knows when all of it is stored;
// chunks that are sent in one copy have one word.
struct ScatteredRows : RowWalk {
  static constexpr int most_pieces = 8, most_chunks = 8;
  bool sent = false;  // chunks, but for the last piece's, are stored in D and sent on; else all lie at their places
  int added = never;  // walked rows from here on are added to what lies there
  void* places[most_pieces] = {};        // where each piece of the walk lies, in order
  const std::uint32_t* begun = nullptr;  // 1 as soon as others may be written to; nothing is stored before
  // What the chunks of the piece before are waited for by: words that are 1 as soon as one was sent here, or …
  const std::uint32_t* come = nullptr;
  std::uint32_t* stored = nullptr;  // … count what was stored of it: such words of the rank that adds next
  std::uint32_t* counts = nullptr;  // here: what is stored to be sent on
  bool counts_last = false;         // and, of the last piece's, all that is stored
  std::uint8_t shared[most_pieces * most_chunks] = {};  // by a chunk's number: how many before it have no word alone

  TILE_FN int word(int chunk) const { return chunk - shared[chunk]; }

  TILE_FN bool is_last(int of_walk) const { return of_walk >= all - piece; }
  TILE_FN bool adds(int row) const { return walked(row) >= added; }
};

}  // namespace ridge::tile
