// Fused products on this CPU. Pointers address the first element. Inputs may be unaligned and must not overlap the
// output. `threads` is the number of threads; 0 means all cores of the process (base/cores.h).
#pragma once

#include <span>

#include "ridge/base/reason.h"
#include "ridge/ops/fused/problem.h"

namespace ridge::ops {

// Returns why the problem cannot run.
Reason unsupported_reason(const FusedMatmul& problem);

// `second` is the second product's right operand or null. `chain` has the data of the chain's tensors after the sums.
// The chain's results must not overlap an input.
void matmul(const FusedMatmul& problem, const void* a, const void* b, const void* second, std::span<void* const> chain,
            int threads = 0);

}  // namespace ridge::ops
