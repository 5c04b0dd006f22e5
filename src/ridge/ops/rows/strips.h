// Runs strips on this CPU.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "ridge/ops/rows/problem.h"

namespace ridge::ops {

std::optional<std::string> refuse(const Strips& strips);
// data[i] is that of operands[i], null for scratch. Must not be refused.
void strips(const Strips& strips, std::span<void* const> data, int threads = 0);

}  // namespace ridge::ops
