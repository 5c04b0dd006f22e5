// How a product's result falls into tiles, and tiles into waves: the cores take a tile each, and who has none in the
// last wave waits. On an A100's 108 cores with tiles of 256 x 128:
//   N = 1792: 7 * 14 = 98 tiles, one wave, 98/108 of it used
//   N = 1793: 8 * 15 = 120 tiles, two waves, 120/216 of them used, 11 % of the tiles' area beyond the edges
#pragma once

#include <string>
#include <vector>

#include "ridge/base/result.h"
#include "ridge/machine/machine.h"
#include "ridge/program/program.h"

namespace ridge {

struct TileWaves {
  std::string name = {}, text = {};      // of the product
  std::int64_t m = 0, n = 0, batch = 1;  // of the result: rows, columns, and how many of them
  std::int64_t tile_m = 0, tile_n = 0, tiles = 0;
  std::int64_t cores = 0, waves = 0;
  double used = 0;          // of the waves' places, the share that has a tile
  double beyond_edges = 0;  // of the tiles' area
};

// Of every product with a sum, in tiles "256x128" of rows and columns. Errors: a tile that cannot be read, a dimension
// without a value, a machine whose cores are not on record, a program without products.
Result<std::vector<TileWaves>> tile_waves(const Program& program, const Machine& machine, const Bindings& given,
                                          const std::string& tile);

}  // namespace ridge
