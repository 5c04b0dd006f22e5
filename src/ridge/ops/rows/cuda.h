// Row functions and reductions on a CUDA device, queued on the caller's stream. Kernels are generated and compiled once
// (device/run_generated.h); without a compiler, a kernel with a block per row is used. Nothing here allocates or waits.
// Data pointers are device memory aligned to their elements.
#pragma once

#include <cstddef>
#include <span>

#include "ridge/base/reason.h"
#include "ridge/base/result.h"
#include "ridge/device/workspace.h"
#include "ridge/ops/rows/program.h"

struct CUstream_st;

namespace ridge::ops::cuda {

// Returns why the problem cannot run. Needs no device.
Reason unsupported_reason(const RowProblem& problem);
Reason unsupported_reason(const RowProgram& program);
Reason unsupported_reason(const ReduceProblem& problem);

// Errors: the launch fails. The problem must be supported. `workspace` has at least
// workspace_bytes(problem) bytes, and its counters stay zero; only sums across rows need one.
std::size_t workspace_bytes(const RowProblem& problem);
Status launch_row_kernel(const RowProblem& problem, const RowData& data, const device::DeviceWorkspace& workspace,
                         CUstream_st* stream);
// Requires generated kernels. tensors[i] is the data of program.tensors[i].
Status launch_row_kernel(const RowProgram& program, std::span<void* const> tensors, CUstream_st* stream);

// Reductions sum in f64 and always in the same order. `workspace` is as above; problems with enough results to fill the
// device need none.
std::size_t workspace_bytes(const ReduceProblem& problem);
Status reduce(const ReduceProblem& problem, const void* x, void* y, const device::DeviceWorkspace& workspace,
              CUstream_st* stream);
// Combines the results of splits, which are f32 and contiguous in the order of the kept axes. A mean is divided by
// `reduced_points`, the number of elements that it averages.
Status reduce_splits(ReduceProblem problem, std::int64_t splits, std::int64_t reduced_points, const void* from, void* y,
                     CUstream_st* stream);

}  // namespace ridge::ops::cuda
