// Cache lines that each operand touches, as a table and JSON.
#pragma once

#include <string>
#include <vector>

#include "ridge/report/table.h"
#include "ridge/roofline/memory_lines.h"

namespace ridge {

// Columns: tensor, shape, leading dimension, unit (line or sector), units of the first tile and their minimum, rows
// that touch one unit more than the minimum, bytes moved over bytes used, and the same after padding.
Cells lines_table(const std::vector<OperandLines>& operands);
std::string render_lines_json(const std::vector<OperandLines>& operands);

}  // namespace ridge
