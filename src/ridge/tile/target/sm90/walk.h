// Which work items a block takes, and in which order. The tiles of a product form bands of a few tile rows; a band is
// walked column by column, so that 132 blocks at a time need a compact set of rows of A and of B, which the L2 then
// holds (8 bands of 128 rows beside 16 columns of 128 at 4096 x 4096). Producer and consumers walk on their own and
// arrive at the same list.
#pragma once

#include "ridge/tile/tile.h"

namespace ridge::tile::sm90 {

struct Problem {  // sizes as the tiles see them, and the schedule
  int m, n, k, batch;
  int pieces;         // of k, each summed by another block and then added in order
  int band;           // tile rows that walk the columns together
  bool early;         // constants may be read before the kernels before this one have ended
  float* partial;     // sums of the pieces
  int* arrived;       // pieces that have come, a counter for each part of a tile; zero between launches
  long long* cycles;  // null, or where block 0 says how long it multiplied
};

struct Item {
  int m0, n0, batch;
  int first, last;  // stages
  int tile, piece;
};

template <class Kernel> struct Walk {
  int tiles_m, tiles_n, stages, pieces, band, end, step, at, rank;

  TILE_FN Walk(const Problem& p, int block_rank)
      : tiles_m((p.m + tile_m - 1) / tile_m),
        tiles_n((p.n + tile_n - 1) / tile_n),
        stages((p.k + Kernel::config.k - 1) / Kernel::config.k),
        pieces(Kernel::config.splits() ? p.pieces : 1),
        band(p.band),
        end(tiles_m * tiles_n * p.batch * pieces),
        step(gridDim.x / Kernel::config.cluster()),
        at(blockIdx.x / Kernel::config.cluster()),
        rank(block_rank) {}

  TILE_FN bool next(Item& x) {
    if (at >= end) return false;
    x.tile = Kernel::config.splits() ? at / pieces : at;
    x.piece = Kernel::config.splits() ? at % pieces : 0;
    x.first = Kernel::config.splits() ? stages * x.piece / pieces : 0;
    x.last = Kernel::config.splits() ? stages * (x.piece + 1) / pieces : stages;
    const int tiles = tiles_m * tiles_n, wide = band * tiles_n;
    x.batch = x.tile / tiles;
    const int i = x.tile - x.batch * tiles, first = i / wide * band;
    const int rows = tiles_m - first < band ? tiles_m - first : band, in = i % wide;
    x.m0 = (first + in % rows) * tile_m + rank % Kernel::config.cluster_m * Kernel::config.m;
    x.n0 = in / rows * tile_n + rank / Kernel::config.cluster_m * Kernel::config.n;
    at += step;
    return true;
  }

 private:
  static constexpr int tile_m = Kernel::config.m * Kernel::config.cluster_m;
  static constexpr int tile_n = Kernel::config.n * Kernel::config.cluster_n;
};

}  // namespace ridge::tile::sm90
