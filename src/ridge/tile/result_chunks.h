// A result that one kernel shares with others: it walks the result's rows in pieces, a piece in groups of rows, and a
// group in strips of columns. A strip of a group is a chunk. The sums of a chunk go on to somebody else as soon as they
// are stored, while the kernel computes what is left; and from some piece on they are added to what somebody else has
// brought. Words in memory say what has come and how much is stored.
#pragma once

#include <cstdint>

#include "ridge/tile/function.h"

namespace ridge::tile {

struct ResultChunks {
  static constexpr int never = 2147483647;
  int rows = 0;              // of a chunk; 0: the result is nobody else's
  int cols = 0, strips = 0;  // columns of a chunk, but for a group's last one; chunks of a group
  int piece = 0;             // rows of a piece, whole groups
  int of_piece = 0;          // chunks
  int first = 0;             // the row with which the walk begins; behind the last one it goes on with row 0
  int all = 0;               // rows of the result: whole pieces
  int added = never;         // walked rows from here on are added to what the result holds
  int apart = never;         // walked rows from here on lie somewhere else, the first of them at `last`
  void* last = nullptr;
  // Of each chunk behind the first piece, in the order of the walk: 1 as soon as it may be added. So many words lie
  // from one chunk's to the next one's.
  const std::uint32_t* come = nullptr;
  int come_stride = 1;
  std::uint32_t* stored = nullptr;  // of each chunk, in the order of the walk: so many of its elements are stored

  TILE_FN int walked(int row) const { return row < first ? row - first + all : row - first; }
  TILE_FN bool adds(int row) const { return walked(row) >= added; }
  TILE_FN bool is_apart(int row) const { return walked(row) >= apart; }
  // The number of an element's chunk. By subtractions: a division takes registers that hold the sums.
  TILE_FN int number(int row, int col) const {
    int at = walked(row), out = 0;
    for (; at >= piece; at -= piece) out += of_piece;
    for (; at >= rows; at -= rows) out += strips;
    for (; col >= cols; col -= cols) ++out;
    return out;
  }
};

}  // namespace ridge::tile
