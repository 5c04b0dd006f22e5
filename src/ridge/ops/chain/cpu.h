// Chains on this CPU. Data pointers are to the first element; inputs may be unaligned, must not overlap the
// output. Threads: 0 means every core that the process may use (base/cores.h), else exactly so many.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "ridge/ops/chain/problem.h"

namespace ridge::ops {

// What stands in the way of running this problem, as a sentence; none: it runs.
std::optional<std::string> refuse(const ChainProgram& program);

// tensors[i] is the data of program.tensors[i].
void chain(const ChainProgram& program, std::span<void* const> tensors, int threads = 0);

}  // namespace ridge::ops
