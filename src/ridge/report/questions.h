// Tables that answer one question each: tiles and waves, one group of statements against another.
#pragma once

#include "ridge/report/table.h"
#include "ridge/roofline/network.h"
#include "ridge/roofline/sizes/between.h"
#include "ridge/roofline/tile_waves.h"

namespace ridge {

Cells tile_waves_table(const std::vector<TileWaves>& waves);
std::string render_tile_waves_json(const std::vector<TileWaves>& waves);  // "ridge.tiles/1"
std::string render_text(const Between& between);
std::string render_json(const Between& between);  // "ridge.between/1"
std::string render_json(const Passage& passage);  // "ridge.passage/1"

}  // namespace ridge
