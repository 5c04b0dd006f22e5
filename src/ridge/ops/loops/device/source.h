// Generates CUDA kernels of recurrences, direct convolutions and folds.
#pragma once

#include <span>

#include "ridge/device/generated_kernel.h"
#include "ridge/ops/loops/problem.h"

namespace ridge::ops {

// Returns the kernel of a recurrence. `data` are device pointers; only their alignment affects the source.
device::GeneratedKernel generate_recurrence_kernel(const RecurrenceLoops& l, std::span<void* const> data,
                                                   int multiprocessors);

// Returns the kernel of a convolution, which instantiates convolution_kernels.h.
device::GeneratedKernel generate_convolution_kernel(const ConvLoops& conv, std::span<void* const> data,
                                                    int multiprocessors);

// Returns the kernel of a fold, which instantiates fold_kernels.h.
device::GeneratedKernel generate_fold_kernel(const FoldLoops& fold, std::span<void* const> data);

}  // namespace ridge::ops
