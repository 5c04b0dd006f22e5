// Rows that a product's kernel exchanges with other ranks. The kernel processes the result's rows in shards, one for
// each rank; this order is called the walk. If A is gathered, the walk begins with this rank's own rows; the columns of
// every other shard arrive in chunks, and each chunk is multiplied as soon as it has arrived. If the result is
// scattered, a chunk is a range of columns of a group of rows. It is added to the partial sums of the earlier ranks,
// and the walk ends with this rank's own shard. Chunks are stored here and copied to the rank that adds next, or stored
// directly in another rank's memory. Flags in memory report the chunks that have arrived.
#pragma once

#include <cstdint>

#include "ridge/tile/function.h"

namespace ridge::tile {

struct RowWalk {
  static constexpr int never = 2147483647;
  int rows = 0;                  // rows of a chunk; 0 if no rows are exchanged
  int cols = never, strips = 1;  // columns of a chunk (the last may be narrower), and number of chunks across
  int piece = 0;                 // rows of a shard, a multiple of `rows`
  int of_piece = 0;              // chunks of a shard
  int first = 0;                 // first row of the walk; after the last row it continues with row 0
  int all = 0;                   // rows of all shards

  TILE_FN int walked(int row) const { return row < first ? row - first + all : row - first; }
  // Shard of the walk that contains a row, and the row within the shard.
  struct Place {
    int piece, row;
  };
  TILE_FN Place place(int row) const {
    Place out{0, walked(row)};  // by subtractions, because a division needs registers that hold sums
    for (; out.row >= piece; out.row -= piece) ++out.piece;
    return out;
  }
  // Returns the number of the chunk that contains an element, counted within its shard.
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
  // Returns the columns of a chunk of a result with `columns` columns.
  TILE_FN int width(int strip, int columns) const { return strip + 1 < strips ? cols : columns - strip * cols; }
};

// Rows of A that are gathered from all ranks.
struct GatheredRows : RowWalk {
  const void* own = nullptr;  // data of the walk's first shard; the others are in A
  // One flag for each chunk after the first shard, in the order of the walk: 1 once the chunk has arrived.
  const std::uint32_t* come = nullptr;
};

// Rows of D that are scattered to all ranks. Flags that kernels write count stored elements, so that a waiting kernel
// knows when all of a chunk is stored. Chunks that one copy transfers together have a common flag.
struct ScatteredRows : RowWalk {
  static constexpr int most_pieces = 8, most_chunks = 8;
  bool sent = false;  // if true, all shards but the last are stored in D and then copied; else stored in shard_data
  int added = never;  // rows of the walk from here on are added to the data already stored there
  void* places[most_pieces] = {};        // data of each shard, in the order of the walk
  const std::uint32_t* begun = nullptr;  // 1 once other ranks' memory may be written; nothing is stored before
  // Flags of the partial sums to add, for each chunk after the first shard: 1 once copied, or count of stored elements.
  const std::uint32_t* come = nullptr;
  std::uint32_t* stored = nullptr;  // element counts of the rank that adds next
  std::uint32_t* counts = nullptr;  // element counts of this rank's chunks that are to be copied
  bool counts_last = false;         // true if the last shard's elements are counted in `chunk_counts`, too
  std::uint8_t shared[most_pieces * most_chunks] = {};  // by chunk: flags saved so far because chunks have common ones

  TILE_FN int word(int chunk) const { return chunk - shared[chunk]; }

  TILE_FN bool is_last(int of_walk) const { return of_walk >= all - piece; }
  TILE_FN bool adds(int row) const { return walked(row) >= added; }
};

}  // namespace ridge::tile
