// What cache lines cost, operand by operand.
#pragma once

#include <string>
#include <vector>

#include "ridge/report/table.h"
#include "ridge/roofline/lines.h"

namespace ridge {

// tensor, shape, leading dimension, line or sector, the first tile's lines and the least, rows that straddle, bytes
// moved over bytes used, and the same behind padding.
Cells lines_table(const std::vector<OperandLines>& operands);
std::string render_lines_json(const std::vector<OperandLines>& operands);

}  // namespace ridge
