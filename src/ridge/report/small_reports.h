// Small reports: tiles and waves of products, when one group of statements costs more than another, a transfer.
#pragma once

#include "ridge/report/table.h"
#include "ridge/roofline/network.h"
#include "ridge/roofline/sizes/compare_statements.h"
#include "ridge/roofline/tile_waves.h"

namespace ridge {

Cells tile_waves_table(const std::vector<TileWaves>& waves);
std::string render_tile_waves_json(const std::vector<TileWaves>& waves);  // "ridge.tiles/1"
std::string render_text(const StatementComparison& between);
std::string render_json(const StatementComparison& between);   // "ridge.between/1"
std::string render_json(const PointToPointTransfer& passage);  // "ridge.passage/1"

}  // namespace ridge
