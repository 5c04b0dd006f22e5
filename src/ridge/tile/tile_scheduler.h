// Which work items a block takes, and in which order. The tiles of a product form groups of `raster_rows` tile rows; a
// group is walked column by column, so that 132 blocks at a time need a compact set of rows of A and of B, which the L2
// then holds (8 groups of 128 rows beside 16 columns of 128 at 4096 x 4096). Neighbouring blocks lie close on the chip,
// and what they ask for together reaches the L2 once: they get neighbouring tiles of one piece of k, not the pieces of
// one tile (7 to 15 % slower). Clusters are dealt out over the chip and gain nothing. Whoever takes items (producer,
// consumer, a target that only counts) arrives at the same list.
#pragma once

#include "ridge/tile/tile.h"

namespace ridge::tile {

struct Cut {  // what of a config the scheduler needs: a block's tile, and the blocks that share what they load
  int m = 0, n = 0, k = 0;
  int cluster_m = 1, cluster_n = 1;
  bool can_split = true;  // false: k is never cut in pieces
  TILE_FN constexpr int cluster() const { return cluster_m * cluster_n; }
};

// How several blocks sum one tile. split_k: k is cut in equal parts, an item each; their sums meet in memory.
// cluster_split_k: the same, but the parts are the blocks of one cluster, one item each, and every block adds and
// stores its share of the tile. stream_k: all stages of all tiles, in a row, are cut in equal runs, a block each, so
// that every block ends at the same time whatever the number of tiles; a tile is summed by the few blocks whose runs
// meet it. cooperative_split_k: as split_k, where all items run at once: every block waits for its tile's other pieces
// and stores a share of the tile.
enum class SplitMode : std::uint8_t { split_k, cluster_split_k, stream_k, cooperative_split_k };
inline constexpr int most_cluster_splits = 8;       // blocks of a cluster, on any chip that has clusters
inline constexpr int most_cooperative_splits = 16;  // each has a bit of a counter

struct Sizes {  // as the tiles see them, and the order
  int m = 0, n = 0, k = 0, batch = 1;
  int splits = 1;       // of k, each summed by another block; at most as many as there are stages (stream_k: not used)
  int raster_rows = 8;  // tile rows that walk the columns together
  SplitMode split_mode = SplitMode::split_k;
  int first_row = 0;  // of tiles, with which the walk begins; behind the last one it goes on with row 0
};

struct Item {
  int m0 = 0, n0 = 0, batch = 0;
  int first = 0, last = 0;    // stages
  int tile = 0;               // the same for all blocks of a cluster
  int block_tile = 0;         // … and this block's of its tiles
  int split = 0, splits = 1;  // which part of the tile's k, of how many
  int partial = 0;            // number of the tile's first piece among the partial sums in memory; the others follow
  int end = 0;                // of the group's rows, where they lie in groups (grouped_scheduler.h)
};

struct TileScheduler {
  Cut cut;
  int tiles_m, tiles_n, stages, splits, raster_rows, first_row, end, step, at, rank, blocks, block;
  bool stream_k, beside;  // beside: the pieces of a tile are items one after the other

  // `blocks` in the grid, a multiple of the cluster; `rank` of this block in its cluster. Tiles * stages < 2^31.
  TILE_FN TileScheduler(const Cut& c, const Sizes& p, int blocks_in_grid, int this_block, int rank_in_cluster)
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
        beside(c.cluster() > 1 || p.split_mode == SplitMode::cluster_split_k) {
    if (stream_k) {
      at = run(block, end * stages);
      end = run(block + 1, end * stages);
    }
  }

  TILE_FN bool next(Item& x) {
    if (at >= end) return false;
    if (stream_k) {
      stream(x);
    } else {
      const int all_tiles = end / splits;
      x.tile = !cut.can_split ? at : beside ? at / splits : at % all_tiles;
      x.split = !cut.can_split ? 0 : beside ? at % splits : at / all_tiles;
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
    if (cut.cluster() > 1) x.partial = x.block_tile * x.splits;  // never stream_k
    return true;
  }

 private:
  int all = 0;                                        // stages of all tiles
  TILE_FN int run(int of_block, int stages_of_all) {  // where its stages begin
    all = stages_of_all;
    const int each = all / blocks, more = all % blocks;
    return of_block * each + (of_block < more ? of_block : more);
  }
  TILE_FN int block_with(int stage) const {
    const int each = all / blocks, more = all % blocks, longer = more * (each + 1);
    return stage < longer ? stage / (each + 1) : more + (stage - longer) / each;
  }
  // A run is followed by the next block's, so (block, tile) goes up by one in either at each piece: block + tile
  // numbers the pieces of all tiles.
  TILE_FN void stream(Item& x) {
    x.tile = at / stages;
    x.first = at - x.tile * stages;
    x.last = stages - x.first < end - at ? stages : x.first + end - at;
    const int begin = block_with(x.tile * stages);
    x.split = block - begin;
    x.splits = block_with(x.tile * stages + stages - 1) - begin + 1;
    x.partial = begin + x.tile;
    at += x.last - x.first;
  }
};

}  // namespace ridge::tile
