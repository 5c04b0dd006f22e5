// Small reports: tiles and waves of products, cache lines of operands, chains of elementwise functions, comparisons of
// statements, point-to-point transfers.
#pragma once

#include <string>
#include <vector>

#include "ridge/report/table.h"
#include "ridge/roofline/memory_lines.h"
#include "ridge/roofline/network.h"
#include "ridge/roofline/pointwise_chain.h"
#include "ridge/roofline/sizes/compare_statements.h"
#include "ridge/roofline/tile_waves.h"

namespace ridge {

Cells tile_waves_table(const std::vector<TileWaves>& waves);
std::string render_tile_waves_json(const std::vector<TileWaves>& waves);  // "ridge.tiles/1"

// Columns: tensor, shape, leading dimension, unit (line or sector), units of the first tile and their minimum, rows
// that touch one unit more than the minimum, bytes moved over bytes used, and the same after padding.
Cells lines_table(const std::vector<OperandLines>& operands);
std::string render_lines_json(const std::vector<OperandLines>& operands);

// Compares fused chains with one kernel per application.
Cells chain_table(const std::vector<PointwiseChain>& chains);  // columns: quantity, fused, unfused
std::string render_chains_json(const std::vector<PointwiseChain>& chains);

std::string render_text(const StatementComparison& comparison);
std::string render_json(const StatementComparison& comparison);  // "ridge.between/1"
std::string render_json(const PointToPointTransfer& transfer);   // "ridge.passage/1"

}  // namespace ridge
