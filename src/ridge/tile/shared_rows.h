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
  static constexpr int unlimited = 2147483647;
  int rows = 0;  // rows of a chunk; 0 if no rows are exchanged
  int cols = unlimited,
      chunks_across = 1;     // columns of a chunk (the last may be narrower), and number of chunks across
  int shard_rows = 0;        // rows of a shard, a multiple of `rows`
  int chunks_per_shard = 0;  // chunks of a shard
  int first = 0;             // first row of the walk; after the last row it continues with row 0
  int total_rows = 0;        // rows of all shards

  TILE_FN int walk_row(int row) const { return row < first ? row - first + total_rows : row - first; }
  // Shard of the walk that contains a row, and the row within the shard.
  struct ShardPosition {
    int shard, row;
  };
  TILE_FN ShardPosition shard_position(int row) const {
    ShardPosition out{0, walk_row(row)};  // by subtractions, because a division needs registers that hold sums
    for (; out.row >= shard_rows; out.row -= shard_rows) ++out.shard;
    return out;
  }
  // Returns the number of the chunk that contains an element, counted within its shard.
  TILE_FN int chunk_in_shard(int shard_row, int col) const {
    int out = 0;
    for (; shard_row >= rows; shard_row -= rows) out += chunks_across;
    for (; col >= cols; col -= cols) ++out;
    return out;
  }
  TILE_FN int chunk_number(int row, int col) const {
    const ShardPosition at = shard_position(row);
    return at.shard * chunks_per_shard + chunk_in_shard(at.row, col);
  }
  // Returns the columns of a chunk of a result with `columns` columns.
  TILE_FN int width(int column_chunk, int columns) const {
    return column_chunk + 1 < chunks_across ? cols : columns - column_chunk * cols;
  }
};

// Rows of A that are gathered from all ranks.
struct GatheredRows : RowWalk {
  const void* own_shard = nullptr;  // data of the walk's first shard; the others are in A
  // One flag for each chunk after the first shard, in the order of the walk: 1 once the chunk has arrived.
  const std::uint32_t* arrived = nullptr;
};

// Rows of D that are scattered to all ranks. Flags that kernels write count stored elements, so that a waiting kernel
// knows when all of a chunk is stored. Chunks that one copy transfers together have a common flag.
struct ScatteredRows : RowWalk {
  static constexpr int max_shards = 8, max_chunks = 8;
  bool copies_chunks =
      false;  // if true, all shards but the last are stored in D and then copied; else stored in shard_data
  int first_added_row = unlimited;          // rows of the walk from here on are added to the data already stored there
  void* shard_data[max_shards] = {};        // data of each shard, in the order of the walk
  const std::uint32_t* is_ready = nullptr;  // 1 once other ranks' memory may be written; nothing is stored before
  // Flags of the partial sums to add, for each chunk after the first shard: 1 once copied, or count of stored elements.
  const std::uint32_t* arrived = nullptr;
  std::uint32_t* next_rank_counts = nullptr;  // element counts of the rank that adds next
  std::uint32_t* chunk_counts = nullptr;      // element counts of this rank's chunks that are to be copied
  bool counts_last_shard = false;             // true if the last shard's elements are counted in `chunk_counts`, too
  std::uint8_t merged_flags[max_shards * max_chunks] =
      {};  // by chunk: flags saved so far because chunks have common ones

  TILE_FN int flag_index(int chunk) const { return chunk - merged_flags[chunk]; }

  TILE_FN bool is_last(int of_walk) const { return of_walk >= total_rows - shard_rows; }
  TILE_FN bool adds_to_row(int row) const { return walk_row(row) >= first_added_row; }
};

}  // namespace ridge::tile
