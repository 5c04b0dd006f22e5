// The work items of a block and their order. The tiles of a product form groups of `raster_rows` tile rows; a group is
// processed column by column, so that 132 concurrent blocks need a compact set of rows of A and of B, which fits in the
// L2 (8 groups of 128 rows and 16 columns of 128 at 4096 x 4096). Blocks with consecutive numbers are close to each
// other on the chip and their common loads reach the L2 once: they get adjacent tiles of one split of k, because giving
// them the splits of one tile is 7 to 15 % slower. Clusters are spread over the chip and do not gain from this. The
// producer, the consumers and the counting target all compute the same list.
#pragma once

#include "ridge/tile/tile.h"

namespace ridge::tile {

struct TileShape {  // the parts of a config that the scheduler needs: a block's tile, and the blocks of a cluster
  int m = 0, n = 0, k = 0;
  int cluster_m = 1, cluster_n = 1;
  bool can_split = true;  // false if k is never split
  TILE_FN constexpr int cluster() const { return cluster_m * cluster_n; }
};

// Division of one tile's sums among several blocks. split_k: k is divided into equal splits, an item each, whose
// partial sums are combined in memory. cluster_split_k: each block of a cluster has one split, and every block adds and
// stores a slice of the tile. stream_k: the sequence of all stages of all tiles is divided into equal runs, one for
// each block, so that all blocks end at the same time for any number of tiles; a tile is summed by the few blocks whose
// runs contain it. cooperative_split_k: as split_k, but all items run concurrently: every block waits for the other
// splits of its tile and stores a slice of the tile.
enum class SplitMode : std::uint8_t { split_k, cluster_split_k, stream_k, cooperative_split_k };
inline constexpr int max_cluster_splits = 8;       // blocks of a cluster, on any chip that has clusters
inline constexpr int max_cooperative_splits = 16;  // each has one bit of a counter

struct ProductShape {  // sizes after an exchange of operands, and the order of the tiles
  int m = 0, n = 0, k = 0, batch = 1;
  int splits = 1;       // splits of k, each summed by another block; at most the number of stages (unused by stream_k)
  int raster_rows = 8;  // tile rows of a group
  SplitMode split_mode = SplitMode::split_k;
  int first_row = 0;  // tile row that comes first; after the last one the order continues with row 0
};

struct WorkItem {
  int m0 = 0, n0 = 0, batch = 0;
  int first = 0, last = 0;    // stages first … last - 1
  int tile = 0;               // number of the cluster's tile, the same for all of its blocks
  int block_tile = 0;         // number of this block's tile
  int split = 0, splits = 1;  // index of the split of k, and number of splits
  int partial = 0;            // index of the tile's first partial sums in memory; those of the other splits follow
  int end = 0;                // end of the group's rows in a grouped product (grouped_scheduler.h)
};

struct TileScheduler {
  TileShape cut;
  int tiles_m, tiles_n, stages, splits, raster_rows, first_row, end, step, at, rank, blocks, block;
  bool stream_k, splits_are_adjacent;  // splits_are_adjacent: the splits of a tile are consecutive items

  // `blocks_in_grid` is a multiple of the cluster's blocks. Requires tiles * stages < 2^31.
  TILE_FN TileScheduler(const TileShape& c, const ProductShape& p, int blocks_in_grid, int this_block,
                        int rank_in_cluster)
      : cut(c),
        tiles_m((p.m + c.m * c.cluster_m - 1) / (c.m * c.cluster_m)),
        tiles_n((p.n + c.n * c.cluster_n - 1) / (c.n * c.cluster_n)),
        stages((p.k + c.k - 1) / c.k),
        splits(c.can_split ? p.splits : 1),
        raster_rows(p.raster_rows),
        first_row(p.first_row),
        end(tiles_m * tiles_n * p.batch * splits),
        step(blocks_in_grid / c.cluster()),
        at(this_block / c.cluster()),
        rank(rank_in_cluster),
        blocks(blocks_in_grid),
        block(this_block),
        stream_k(c.can_split && p.split_mode == SplitMode::stream_k),
        splits_are_adjacent(c.cluster() > 1 || p.split_mode == SplitMode::cluster_split_k) {
    if (stream_k) {
      at = first_stage_of(block, end * stages);
      end = first_stage_of(block + 1, end * stages);
    }
  }

  TILE_FN bool next(WorkItem& x) {
    if (at >= end) return false;
    if (stream_k) {
      take_stream_item(x);
    } else {
      const int all_tiles = end / splits;
      x.tile = !cut.can_split ? at : splits_are_adjacent ? at / splits : at % all_tiles;
      x.split = !cut.can_split ? 0 : splits_are_adjacent ? at % splits : at / all_tiles;
      x.splits = splits;
      x.partial = x.tile * splits;
      x.first = cut.can_split ? stages * x.split / splits : 0;
      x.last = cut.can_split ? stages * (x.split + 1) / splits : stages;
      at += step;
    }
    const int tiles = tiles_m * tiles_n, wide = raster_rows * tiles_n;
    x.batch = x.tile / tiles;
    const int i = x.tile - x.batch * tiles, first = i / wide * raster_rows;
    const int rows = tiles_m - first < raster_rows ? tiles_m - first : raster_rows, in = i % wide;
    const int walked = first_row + first + in % rows, row = walked < tiles_m ? walked : walked - tiles_m;
    x.m0 = (row * cut.cluster_m + rank % cut.cluster_m) * cut.m;
    x.n0 = (in / rows * cut.cluster_n + rank / cut.cluster_m) * cut.n;
    x.block_tile = x.tile * cut.cluster() + rank;
    if (cut.cluster() > 1) x.partial = x.block_tile * x.splits;  // stream_k has no clusters
    return true;
  }

 private:
  int total_stages = 0;  // stages of all tiles
  // Returns the first stage of a block's run.
  TILE_FN int first_stage_of(int of_block, int stages_of_all) {
    total_stages = stages_of_all;
    const int each = total_stages / blocks, more = total_stages % blocks;
    return of_block * each + (of_block < more ? of_block : more);
  }
  TILE_FN int block_of_stage(int stage) const {
    const int each = total_stages / blocks, more = total_stages % blocks, longer = more * (each + 1);
    return stage < longer ? stage / (each + 1) : more + (stage - longer) / each;
  }
  // Takes the next part of this block's run. From one part to the next either the block or the tile grows by one, so
  // block + tile numbers the parts of all tiles.
  TILE_FN void take_stream_item(WorkItem& x) {
    x.tile = at / stages;
    x.first = at - x.tile * stages;
    x.last = stages - x.first < end - at ? stages : x.first + end - at;
    const int begin = block_of_stage(x.tile * stages);
    x.split = block - begin;
    x.splits = block_of_stage(x.tile * stages + stages - 1) - begin + 1;
    x.partial = begin + x.tile;
    at += x.last - x.first;
  }
};

}  // namespace ridge::tile
