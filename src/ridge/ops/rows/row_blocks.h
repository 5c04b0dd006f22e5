// Runs row-block programs on this CPU.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "ridge/ops/rows/problem.h"

namespace ridge::ops {

std::optional<std::string> unsupported_reason(const RowBlockProgram& program);
// data[i] is the data of operands[i], or null for scratch. The program must be supported.
void run_row_blocks(const RowBlockProgram& program, std::span<void* const> data, int threads = 0);

}  // namespace ridge::ops
