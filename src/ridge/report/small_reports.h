// Small reports: tiles and waves of products, comparisons of statements, point-to-point transfers.
#pragma once

#include "ridge/report/table.h"
#include "ridge/roofline/network.h"
#include "ridge/roofline/sizes/compare_statements.h"
#include "ridge/roofline/tile_waves.h"

namespace ridge {

Cells tile_waves_table(const std::vector<TileWaves>& waves);
std::string render_tile_waves_json(const std::vector<TileWaves>& waves);  // "ridge.tiles/1"
std::string render_text(const StatementComparison& comparison);
std::string render_json(const StatementComparison& comparison);  // "ridge.between/1"
std::string render_json(const PointToPointTransfer& transfer);   // "ridge.passage/1"

}  // namespace ridge
