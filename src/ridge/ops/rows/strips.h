// Runs row-block programs on this CPU.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "ridge/ops/rows/problem.h"

namespace ridge::ops {

std::optional<std::string> refuse(const Strips& strips);
// data[i] is the data of operands[i], or null for scratch. The program must be supported.
void strips(const Strips& strips, std::span<void* const> data, int threads = 0);

}  // namespace ridge::ops
