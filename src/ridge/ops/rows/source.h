// Generates CUDA kernels of row programs.
#pragma once

#include <span>

#include "ridge/device/device.h"
#include "ridge/device/generated_kernel.h"
#include "ridge/ops/rows/program.h"

namespace ridge::ops {

// Returns the kernel of a valid program (`invalid_reason`). Pointers are device memory; only their alignment matters.
// Sums across rows have one split per block or cluster, at most max_row_splits(program).
device::GeneratedKernel generate_row_kernel(const RowProgram& program, std::span<void* const> tensors,
                                            const device::MultiprocessorLimits& device);

}  // namespace ridge::ops
