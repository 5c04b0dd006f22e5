// Rows that a product's kernel exchanges with other ranks. The kernel processes the result's rows in shards, one for
// each rank; the order of the rows is called the walk. If A is gathered, the walk begins with this rank's own rows; the
// columns of every other shard arrive in chunks, and each chunk is multiplied as soon as it has arrived. If the result
// is scattered, a chunk is a range of columns of a group of rows. A chunk is added to the partial sums of the earlier
// ranks, and the walk ends with this rank's own shard. Chunks are stored in this rank's memory and copied to the rank
// that adds next, or stored directly in that rank's memory. Flags in memory report which chunks have arrived.
#pragma once

#include <cstdint>

#include "ridge/tile/function.h"

namespace ridge::tile {

// Order in which a kernel processes rows, and their division into shards and chunks.
struct RowWalk {
  static constexpr int unlimited = 2147483647;
  int rows = 0;  // number of rows of a chunk; 0 if no rows are exchanged
  int cols = unlimited,
      chunks_across = 1;  // number of columns of a chunk (the last may be narrower), and of chunks side by side
  int shard_rows = 0;     // number of rows of a shard, a multiple of `rows`
  int chunks_per_shard = 0;
  int first = 0;       // first row of the walk; after the last row it continues with row 0
  int total_rows = 0;  // number of rows of all shards

  // Returns the position of a row in the walk.
  TILE_FN int walk_position(int row) const { return row < first ? row - first + total_rows : row - first; }
  // Index of a shard in the walk, and index of a row within the shard.
  struct ShardPosition {
    int shard, row;
  };
  TILE_FN ShardPosition shard_position(int row) const {
    ShardPosition out{0, walk_position(row)};  // subtracts, because a division needs more registers
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
  // Returns the number of columns of a chunk, in a result with `columns` columns.
  TILE_FN int chunk_width(int column_chunk, int columns) const {
    return column_chunk + 1 < chunks_across ? cols : columns - column_chunk * cols;
  }
};

// Rows of A that are gathered from all ranks.
struct GatheredRows : RowWalk {
  const void* own_shard = nullptr;  // data of the walk's first shard; the other shards are in A
  // One flag for each chunk after the first shard, in the order of the walk: 1 once the chunk has arrived.
  const std::uint32_t* arrived = nullptr;
};

// Rows of D that are scattered to all ranks. Flags that kernels write count stored elements, so that a waiting kernel
// knows when a chunk is complete. Chunks that one copy transfers together have a common flag.
struct ScatteredRows : RowWalk {
  static constexpr int max_shards = 8, max_chunks = 8;
  bool copies_chunks = false;  // if true, all shards but the last are stored in D and then copied; else in shard_data
  int first_added_row = unlimited;  // walk position from which rows are added to stored data instead of overwriting it
  void* shard_data[max_shards] = {};          // data of each shard, in the order of the walk
  const std::uint32_t* ready_flag = nullptr;  // 1 once other ranks' memory may be written; stores wait for it
  // Flag of each chunk after the first shard, whose partial sums are added: 1 once copied, or number of stored
  // elements.
  const std::uint32_t* arrived = nullptr;
  std::uint32_t* next_rank_counts = nullptr;  // in the memory of the rank that adds next: stored elements of each chunk
  std::uint32_t* chunk_counts = nullptr;  // stored elements of each chunk in this rank's memory that is to be copied
  bool counts_last_shard = false;         // true if `chunk_counts` also counts the elements of the last shard
  std::uint8_t merged_flags[max_shards * max_chunks] = {};  // difference of a chunk's number and its flag's index

  TILE_FN int flag_index(int chunk) const { return chunk - merged_flags[chunk]; }

  TILE_FN bool is_in_last_shard(int position) const { return position >= total_rows - shard_rows; }
  TILE_FN bool adds_to_row(int row) const { return walk_position(row) >= first_added_row; }
};

}  // namespace ridge::tile
