// Assigns work items to blocks. The tiles of a product form groups of `raster_rows` rows of tiles; a group is processed
// column by column, so that 132 concurrent blocks read a compact set of rows of A and columns of B, which fits in the
// L2 (8 rows of tiles and 16 columns of tiles of 128 x 128 at 4096 x 4096). Blocks with consecutive numbers are close
// to each other on the chip, so that their common loads reach the L2 once. Therefore they get adjacent tiles of one
// split of k; giving them the splits of one tile is 7 to 15 % slower. Clusters are spread over the chip and do not gain
// from this. The producer, the consumers and the target that counts traffic compute the same sequence of items.
#pragma once

#include "ridge/tile/tile.h"

namespace ridge::tile {

struct TileShape {  // the parts of a config that the scheduler needs: a block's tile, and the blocks of a cluster
  int m = 0, n = 0, k = 0;
  int cluster_m = 1, cluster_n = 1;
  bool can_split = true;  // true if k may be split
  TILE_FN constexpr int cluster() const { return cluster_m * cluster_n; }
};

// Division of one tile's sums among several blocks. split_k: k is divided into equal splits, an item each, whose
// partial sums are combined in memory. cluster_split_k: each block of a cluster has one split, and every block adds and
// stores a slice of the tile. stream_k: the sequence of all stages of all tiles is divided into equal runs, one for
// each block, so that all blocks end at the same time for any number of tiles; a tile is summed by the few blocks whose
// runs contain it. cooperative_split_k: as split_k, but all items run concurrently: every block waits for the other
// splits of its tile and stores a slice of the tile.
enum class SplitMode : std::uint8_t { split_k, cluster_split_k, stream_k, cooperative_split_k };
inline constexpr int max_cluster_splits = 8;       // largest cluster that all chips with clusters support
inline constexpr int max_cooperative_splits = 16;  // limited by the bits of the counter (ring.h)

struct ProductShape {  // sizes of the product (after A and B are exchanged, if they are), its splits and its tile order
  int m = 0, n = 0, k = 0, batch = 1;
  int splits = 1;       // number of splits of k, at most the number of stages (unused by stream_k)
  int raster_rows = 8;  // number of rows of tiles in a group
  SplitMode split_mode = SplitMode::split_k;
  int first_row = 0;  // first row of tiles in the order; row 0 follows the last row
};

struct WorkItem {
  int m0 = 0, n0 = 0, batch = 0;
  int first_stage = 0, end_stage = 0;  // stages first_stage … end_stage - 1
  int cluster_tile = 0;                // number of the cluster's tile, the same for all blocks of the cluster
  int block_tile = 0;                  // number of this block's tile
  int split = 0, splits = 1;           // index of the split of k, and number of splits
  int first_partial = 0;               // index of the partial sums of split 0 in memory; the other splits follow
  int row_end = 0;                     // end of the group's rows in a grouped product (grouped_scheduler.h)
};

struct TileScheduler {
  TileShape tile_shape;
  int tiles_m, tiles_n, stages, splits, raster_rows, first_row, end, item_stride, next_item, rank, blocks, block;
  bool stream_k, splits_are_adjacent;  // true if the splits of a tile are consecutive items

  // `blocks_in_grid` must be a multiple of the cluster's blocks, and tiles * stages less than 2^31.
  TILE_FN TileScheduler(const TileShape& c, const ProductShape& p, int blocks_in_grid, int this_block,
                        int rank_in_cluster)
      : tile_shape(c),
        tiles_m((p.m + c.m * c.cluster_m - 1) / (c.m * c.cluster_m)),
        tiles_n((p.n + c.n * c.cluster_n - 1) / (c.n * c.cluster_n)),
        stages((p.k + c.k - 1) / c.k),
        splits(c.can_split ? p.splits : 1),
        raster_rows(p.raster_rows),
        first_row(p.first_row),
        end(tiles_m * tiles_n * p.batch * splits),
        item_stride(blocks_in_grid / c.cluster()),
        next_item(this_block / c.cluster()),
        rank(rank_in_cluster),
        blocks(blocks_in_grid),
        block(this_block),
        stream_k(c.can_split && p.split_mode == SplitMode::stream_k),
        splits_are_adjacent(c.cluster() > 1 || p.split_mode == SplitMode::cluster_split_k) {
    if (stream_k) {
      total_stages = end * stages;
      next_item = first_stage_of_block(block);
      end = first_stage_of_block(block + 1);
    }
  }

  TILE_FN bool next(WorkItem& x) {
    if (next_item >= end) return false;
    if (stream_k) {
      take_stream_k_item(x);
    } else {
      const int all_tiles = end / splits;
      x.cluster_tile = !tile_shape.can_split ? next_item
                       : splits_are_adjacent ? next_item / splits
                                             : next_item % all_tiles;
      x.split = !tile_shape.can_split ? 0 : splits_are_adjacent ? next_item % splits : next_item / all_tiles;
      x.splits = splits;
      x.first_partial = x.cluster_tile * splits;
      x.first_stage = tile_shape.can_split ? stages * x.split / splits : 0;
      x.end_stage = tile_shape.can_split ? stages * (x.split + 1) / splits : stages;
      next_item += item_stride;
    }
    const int tiles = tiles_m * tiles_n, wide = raster_rows * tiles_n;
    x.batch = x.cluster_tile / tiles;
    const int i = x.cluster_tile - x.batch * tiles, first = i / wide * raster_rows;
    const int rows = tiles_m - first < raster_rows ? tiles_m - first : raster_rows, in = i % wide;
    const int shifted = first_row + first + in % rows, row = shifted < tiles_m ? shifted : shifted - tiles_m;
    x.m0 = (row * tile_shape.cluster_m + rank % tile_shape.cluster_m) * tile_shape.m;
    x.n0 = (in / rows * tile_shape.cluster_n + rank / tile_shape.cluster_m) * tile_shape.n;
    x.block_tile = x.cluster_tile * tile_shape.cluster() + rank;
    if (tile_shape.cluster() > 1) x.first_partial = x.block_tile * x.splits;  // stream_k has no clusters
    return true;
  }

 private:
  int total_stages = 0;  // stages of all tiles (stream_k); next_item and end then count stages
  // Returns the first stage of a block's run.
  TILE_FN int first_stage_of_block(int of_block) const {
    const int each = total_stages / blocks, more = total_stages % blocks;
    return of_block * each + (of_block < more ? of_block : more);
  }
  TILE_FN int block_of_stage(int stage) const {
    const int each = total_stages / blocks, more = total_stages % blocks, longer = more * (each + 1);
    return stage < longer ? stage / (each + 1) : more + (stage - longer) / each;
  }
  // Takes the next part of this block's run, at most one tile. From a part to the next either the block number or the
  // tile number grows by one, so that their sum numbers the parts of all tiles.
  TILE_FN void take_stream_k_item(WorkItem& x) {
    x.cluster_tile = next_item / stages;
    x.first_stage = next_item - x.cluster_tile * stages;
    x.end_stage = stages - x.first_stage < end - next_item ? stages : x.first_stage + end - next_item;
    const int begin = block_of_stage(x.cluster_tile * stages);
    x.split = block - begin;
    x.splits = block_of_stage(x.cluster_tile * stages + stages - 1) - begin + 1;
    x.first_partial = begin + x.cluster_tile;
    next_item += x.end_stage - x.first_stage;
  }
};

}  // namespace ridge::tile
