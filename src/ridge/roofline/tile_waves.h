// Tiles of a product's result, and waves of tiles: each core takes one tile per wave, and cores without a tile in the
// last wave are idle. On an A100's 108 cores with tiles of 256 x 128:
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
  std::string name = {}, text = {};      // Result and statement of the product
  std::int64_t m = 0, n = 0, batch = 1;  // Rows, columns and number of results
  std::int64_t tile_m = 0, tile_n = 0, tiles = 0;
  std::int64_t cores = 0, waves = 0;
  double utilization = 0;       // Fraction of the slots in all waves that have a tile
  double padding_fraction = 0;  // Fraction of the tiles' area beyond the edges of the result
};

// Counts tiles of every product with a sum; "256x128" is rows by columns. Errors: a tile that cannot be parsed, a
// dimension without a value, a machine without cores on record, a program without products.
Result<std::vector<TileWaves>> count_tile_waves(const Program& program, const Machine& machine, const Bindings& given,
                                                const std::string& tile);

}  // namespace ridge
