// Which work items a block takes, and in which order. The tiles of a product form bands of a few tile rows; a band is
// walked column by column, so that 132 blocks at a time need a compact set of rows of A and of B, which the L2 then
// holds (8 bands of 128 rows beside 16 columns of 128 at 4096 x 4096). Neighbouring blocks lie close on the chip, and
// what they ask for together reaches the L2 once: they get neighbouring tiles of one piece of k, not the pieces of one
// tile (7 to 15 % slower). Clusters are dealt out over the chip and gain nothing. Whoever walks (producer, consumer, a
// target that only counts) arrives at the same list.
#pragma once

#include "ridge/tile/tile.h"

namespace ridge::tile {

struct Cut {  // what of a config the walk needs: a block's tile, and the blocks that share what they load
  int m = 0, n = 0, k = 0;
  int cluster_m = 1, cluster_n = 1;
  bool splits = true;  // false: k is never cut in pieces
  TILE_FN constexpr int cluster() const { return cluster_m * cluster_n; }
};

// How several blocks sum one tile. pieces: k is cut in equal parts, an item each; their sums meet in memory. shared:
// the same, but the parts are the blocks of one cluster, one item each, and every block adds and stores its share of
// the tile. streamed: all stages of all tiles, in a row, are cut in equal runs, a block each, so that every block ends
// at the same time whatever the number of tiles; a tile is summed by the few blocks whose runs meet it. gathered: as
// pieces, where all items run at once: every block waits for its tile's other pieces and stores a share of the tile.
enum class Cuts : std::uint8_t { pieces, shared, streamed, gathered };
inline constexpr int most_shared_pieces = 8;     // blocks of a cluster, on any chip that has clusters
inline constexpr int most_gathered_pieces = 16;  // each has a bit of a counter

struct Sizes {  // as the tiles see them, and the order
  int m = 0, n = 0, k = 0, batch = 1;
  int pieces = 1;  // of k, each summed by another block; at most as many as there are stages (streamed: not used)
  int band = 8;    // tile rows that walk the columns together
  Cuts cuts = Cuts::pieces;
};

struct Item {
  int m0 = 0, n0 = 0, batch = 0;
  int first = 0, last = 0;    // stages
  int tile = 0;               // the same for all blocks of a cluster
  int own = 0;                // … and this block's of its tiles
  int piece = 0, pieces = 1;  // which part of the tile's k, of how many
  int partial = 0;            // number of the tile's first piece among the partial sums in memory; the others follow
};

struct Walk {
  Cut cut;
  int tiles_m, tiles_n, stages, pieces, band, end, step, at, rank, blocks, block;
  bool streamed, beside;  // beside: the pieces of a tile are items one after the other

  // `blocks` in the grid, a multiple of the cluster; `rank` of this block in its cluster. Tiles * stages < 2^31.
  TILE_FN Walk(const Cut& c, const Sizes& p, int blocks_in_grid, int this_block, int rank_in_cluster)
      : cut(c),
        tiles_m((p.m + c.m * c.cluster_m - 1) / (c.m * c.cluster_m)),
        tiles_n((p.n + c.n * c.cluster_n - 1) / (c.n * c.cluster_n)),
        stages((p.k + c.k - 1) / c.k),
        pieces(c.splits ? p.pieces : 1),
        band(p.band),
        end(tiles_m * tiles_n * p.batch * pieces),
        step(blocks_in_grid / c.cluster()),
        at(this_block / c.cluster()),
        rank(rank_in_cluster),
        blocks(blocks_in_grid),
        block(this_block),
        streamed(c.splits && p.cuts == Cuts::streamed),
        beside(c.cluster() > 1 || p.cuts == Cuts::shared) {
    if (streamed) at = run(block, end * stages), end = run(block + 1, end * stages);
  }

  TILE_FN bool next(Item& x) {
    if (at >= end) return false;
    if (streamed) {
      stream(x);
    } else {
      const int all_tiles = end / pieces;
      x.tile = !cut.splits ? at : beside ? at / pieces : at % all_tiles;
      x.piece = !cut.splits ? 0 : beside ? at % pieces : at / all_tiles;
      x.pieces = pieces;
      x.partial = x.tile * pieces;
      x.first = cut.splits ? stages * x.piece / pieces : 0;
      x.last = cut.splits ? stages * (x.piece + 1) / pieces : stages;
      at += step;
    }
    const int tiles = tiles_m * tiles_n, wide = band * tiles_n;
    x.batch = x.tile / tiles;
    const int i = x.tile - x.batch * tiles, first = i / wide * band;
    const int rows = tiles_m - first < band ? tiles_m - first : band, in = i % wide;
    x.m0 = ((first + in % rows) * cut.cluster_m + rank % cut.cluster_m) * cut.m;
    x.n0 = (in / rows * cut.cluster_n + rank / cut.cluster_m) * cut.n;
    x.own = x.tile * cut.cluster() + rank;
    if (cut.cluster() > 1) x.partial = x.own * x.pieces;  // never streamed
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
    x.piece = block - begin, x.pieces = block_with(x.tile * stages + stages - 1) - begin + 1;
    x.partial = begin + x.tile;
    at += x.last - x.first;
  }
};

}  // namespace ridge::tile
