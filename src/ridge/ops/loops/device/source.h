// Generates CUDA kernels of recurrences, direct convolutions and folds.
#pragma once

#include <optional>
#include <span>

#include "ridge/device/generated_kernel.h"
#include "ridge/ops/loops/problem.h"

namespace ridge::ops {

// Returns the kernel of a recurrence. `data` are device pointers; only their alignment affects the source.
device::GeneratedKernel generate_recurrence_kernel(const RecurrenceLoops& l, std::span<void* const> data,
                                                   int multiprocessors);

// Returns the kernel of a convolution, which instantiates convolution_kernels.h or, for channels last,
// depthwise_kernels.h; can_convolve_channels_last must then be true.
device::GeneratedKernel generate_convolution_kernel(const ConvLoops& conv, std::span<void* const> data,
                                                    int multiprocessors);

// Returns the instructions of all lanes of a convolution with channels last whose tensors are aligned, as if each
// multiprocessor ran the blocks of the busiest one.
double count_depthwise_instructions(const ConvLoops& conv, int multiprocessors);

// Work of all threads of a depthwise convolution with channels second.
struct ColumnWork {
  double products = 0, loads = 0, rows = 0;  // Multiply-adds, loaded elements, and loaded rows of a window's width
};
// Returns nothing if the threads do not each compute down a column.
std::optional<ColumnWork> count_column_work(const ConvLoops& conv, int multiprocessors);

// Returns the kernel of a fold, which instantiates fold_kernels.h.
device::GeneratedKernel generate_fold_kernel(const FoldLoops& fold, std::span<void* const> data);

}  // namespace ridge::ops
