// Fused products on this CPU. Data pointers are to the first element; inputs may be unaligned, must not overlap the
// output. Threads: 0 means every core that the process may use (base/cores.h), else exactly so many.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "ridge/ops/fused/problem.h"

namespace ridge::ops {

// What stands in the way of running this problem, as a sentence; none: it runs.
std::optional<std::string> refuse(const FusedMatmul& problem);

// `second`: the second product's right operand, else null. `chain`: the data of the chain's tensors behind the sums.
// What the chain stores must not overlap an input.
void matmul(const FusedMatmul& problem, const void* a, const void* b, const void* second, std::span<void* const> chain,
            int threads = 0);

}  // namespace ridge::ops
