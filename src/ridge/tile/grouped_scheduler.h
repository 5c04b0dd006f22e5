// Assigns the work items of a grouped product to blocks. D's rows form consecutive groups, each with its own matrix B,
// and a tile has rows of one group only. The lengths of the groups may be known only on the device, so the producer and
// each consumer iterate over the groups and count their tiles: 512 reads for 256 groups, which hit the L1. Three groups
// of 200, 0 and 130 rows have 2, 0 and 2 rows of tiles of 128 rows.
#pragma once

#include <type_traits>

#include "ridge/tile/tile_scheduler.h"

namespace ridge::tile {

struct GroupRows {
  int begin = 0, end = 0;
};
struct RowGroups {
  const int* starts = nullptr;  // first row of each group, then the end of the last group
  bool along_n = false;         // true if the rows are the tiles' n (A and B are exchanged) and not their m

  // Returns the rows of a group, clamped to 0 … rows.
  TILE_FN GroupRows rows_of_group(int group, int rows) const {
    const auto inside = [rows](int row) {
      if (row < 0) return 0;
      return row < rows ? row : rows;
    };
    const int begin = inside(starts[group]), end = inside(starts[group + 1]);
    return {begin, end < begin ? begin : end};
  }
};

struct GroupedScheduler {
  TileShape tile_shape;
  ProductShape sizes;  // `batch` is the number of groups
  RowGroups groups;
  int stages, next_tile, tile_stride, group = -1;
  int tiles = 0, tiles_before = 0;  // tiles of this group, and of all earlier groups
  GroupRows rows;

  // Requires tiles * stages < 2^31. Clusters and split-K are not supported.
  TILE_FN GroupedScheduler(const TileShape& c, const ProductShape& p, const RowGroups& g, int blocks_in_grid,
                           int this_block)
      : tile_shape(c),
        sizes(p),
        groups(g),
        stages((p.k + c.k - 1) / c.k),
        next_tile(this_block),
        tile_stride(blocks_in_grid) {}

  TILE_FN bool next(WorkItem& x) {
    while (next_tile >= tiles_before + tiles)
      if (!next_group()) return false;
    const int i = next_tile - tiles_before, wide = sizes.raster_rows * column_tiles(),
              first = i / wide * sizes.raster_rows;
    const int high = row_tiles() - first < sizes.raster_rows ? row_tiles() - first : sizes.raster_rows, in = i % wide;
    x = {};
    x.m0 = (first + in % high) * tile_shape.m + (groups.along_n ? 0 : rows.begin);
    x.n0 = in / high * tile_shape.n + (groups.along_n ? rows.begin : 0);
    x.batch = group;
    x.end_stage = stages;
    x.cluster_tile = x.block_tile = next_tile;
    x.row_end = rows.end;
    next_tile += tile_stride;
    return true;
  }

 private:
  TILE_FN int row_tiles() const {
    return ((groups.along_n ? sizes.m : rows.end - rows.begin) + tile_shape.m - 1) / tile_shape.m;
  }
  TILE_FN int column_tiles() const {
    return ((groups.along_n ? rows.end - rows.begin : sizes.n) + tile_shape.n - 1) / tile_shape.n;
  }
  TILE_FN bool next_group() {
    if (group + 1 >= sizes.batch) return false;
    tiles_before += tiles;
    const int previous_end = rows.end;
    rows = groups.rows_of_group(++group, groups.along_n ? sizes.n : sizes.m);
    if (rows.begin < previous_end) rows.begin = previous_end;  // descending starts: no row belongs to two groups
    if (rows.end < rows.begin) rows.end = rows.begin;
    tiles = row_tiles() * column_tiles();
    return true;
  }
};

template <class Kernel> inline constexpr bool is_grouped = [] {
  if constexpr (requires { Kernel::config.grouped; }) return Kernel::config.grouped;
  return false;
}();
template <class Kernel> using SchedulerOf = std::conditional_t<is_grouped<Kernel>, GroupedScheduler, TileScheduler>;

}  // namespace ridge::tile
