// Rows of a result that one kernel shares with others: it walks them in pieces, and each piece in chunks. The sums of a
// chunk go on to somebody else as soon as they are stored, while the kernel computes what is left; and from some piece
// on they are added to what somebody else has brought. Words in memory say what has come and how much is stored.
#pragma once

#include <cstdint>

#include "ridge/tile/function.h"

namespace ridge::tile {

struct RowChunks {
  static constexpr int never = 2147483647;
  int rows = 0;       // of a chunk, but for the last one of a piece; 0: the result is nobody else's
  int piece = 0;      // rows of a piece
  int first = 0;      // the row with which the walk begins; behind the last one it goes on with row 0
  int all = 0;        // rows of the result: whole pieces
  int added = never;  // walked rows from here on are added to what the result holds
  int apart = never;  // walked rows from here on lie somewhere else, the first of them at `last`
  void* last = nullptr;
  // Of each chunk whose rows are added: 1 as soon as they may be. So many words lie from one piece's to the next one's,
  // and from one chunk's.
  const std::uint32_t* come = nullptr;
  int come_piece = 0, come_chunk = 0;
  std::uint32_t* stored = nullptr;  // of each chunk, in the order of the walk: so many of its elements are stored

  TILE_FN int walked(int row) const { return row < first ? row - first + all : row - first; }
  TILE_FN bool adds(int row) const { return walked(row) >= added; }
  TILE_FN bool is_apart(int row) const { return walked(row) >= apart; }
  // Nothing comes to the first piece. By subtractions: a division takes registers that hold the sums.
  TILE_FN const std::uint32_t* come_to(int row) const {
    const std::uint32_t* word = come;
    int at = walked(row) - piece;
    for (; at >= piece; at -= piece) word += come_piece;
    for (; at >= rows; at -= rows) word += come_chunk;
    return word;
  }
  TILE_FN std::uint32_t* stored_of(int row) const {
    const int at = walked(row), pieces = at / piece;
    return stored + pieces * ((piece + rows - 1) / rows) + (at - pieces * piece) / rows;
  }
};

}  // namespace ridge::tile
