// Runs chains on this CPU. Data pointers point to the first element; inputs may be unaligned and must not overlap the
// output. If `threads` is 0, all cores that the process may use run the chain (base/cores.h).
#pragma once

#include <span>

#include "ridge/base/reason.h"
#include "ridge/ops/chain/problem.h"

namespace ridge::ops {

// Returns why this program cannot run.
Reason unsupported_reason(const ChainProgram& program);

// Runs a supported program. tensors[i] is the data of program.tensors[i].
void run_chain_program(const ChainProgram& program, std::span<void* const> tensors, int threads = 0);

}  // namespace ridge::ops
