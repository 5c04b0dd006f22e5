// Runs row-block programs on this CPU.
#pragma once

#include <span>

#include "ridge/base/reason.h"
#include "ridge/ops/rows/problem.h"

namespace ridge::ops {

Reason unsupported_reason(const RowBlockProgram& program);
// data[i] is the data of operands[i], or null for scratch. The program must be supported.
void run_row_blocks(const RowBlockProgram& program, std::span<void* const> data, int threads = 0);

}  // namespace ridge::ops
