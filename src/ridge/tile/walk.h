// Which work items a block takes, and in which order. The tiles of a product form bands of a few tile rows; a band is
// walked column by column, so that 132 blocks at a time need a compact set of rows of A and of B, which the L2 then
// holds (8 bands of 128 rows beside 16 columns of 128 at 4096 x 4096). Whoever walks (a producer, a consumer, a target
// that only counts) arrives at the same list.
#pragma once

#include "ridge/tile/tile.h"

namespace ridge::tile {

struct Cut {  // what of a config the walk needs: a block's tile, and the blocks that share what they load
  int m = 0, n = 0, k = 0;
  int cluster_m = 1, cluster_n = 1;
  bool splits = true;  // false: k is never cut in pieces
  TILE_FN constexpr int cluster() const { return cluster_m * cluster_n; }
};

struct Sizes {  // as the tiles see them, and the order
  int m = 0, n = 0, k = 0, batch = 1;
  int pieces = 1;  // of k, each summed by another block; at most as many as there are stages
  int band = 8;    // tile rows that walk the columns together
};

struct Item {
  int m0 = 0, n0 = 0, batch = 0;
  int first = 0, last = 0;  // stages
  int tile = 0, piece = 0;
};

struct Walk {
  Cut cut;
  int tiles_m, tiles_n, stages, pieces, band, end, step, at, rank;

  // `blocks` in the grid, a multiple of the cluster; `rank` of this block in its cluster.
  TILE_FN Walk(const Cut& c, const Sizes& p, int blocks, int block, int rank_in_cluster)
      : cut(c),
        tiles_m((p.m + c.m * c.cluster_m - 1) / (c.m * c.cluster_m)),
        tiles_n((p.n + c.n * c.cluster_n - 1) / (c.n * c.cluster_n)),
        stages((p.k + c.k - 1) / c.k),
        pieces(c.splits ? p.pieces : 1),
        band(p.band),
        end(tiles_m * tiles_n * p.batch * pieces),
        step(blocks / c.cluster()),
        at(block / c.cluster()),
        rank(rank_in_cluster) {}

  TILE_FN bool next(Item& x) {
    if (at >= end) return false;
    x.tile = cut.splits ? at / pieces : at;
    x.piece = cut.splits ? at % pieces : 0;
    x.first = cut.splits ? stages * x.piece / pieces : 0;
    x.last = cut.splits ? stages * (x.piece + 1) / pieces : stages;
    const int tiles = tiles_m * tiles_n, wide = band * tiles_n;
    x.batch = x.tile / tiles;
    const int i = x.tile - x.batch * tiles, first = i / wide * band;
    const int rows = tiles_m - first < band ? tiles_m - first : band, in = i % wide;
    x.m0 = ((first + in % rows) * cut.cluster_m + rank % cut.cluster_m) * cut.m;
    x.n0 = (in / rows * cut.cluster_n + rank / cut.cluster_m) * cut.n;
    at += step;
    return true;
  }
};

}  // namespace ridge::tile
