// Row functions and reductions on a CUDA device, queued on the caller's stream: kernels that are generated for the call
// and compiled once (device/run_generated.h), or, where no compiler is found, one with a block a row. None of them
// allocates or waits. Data pointers are device memory at whole elements.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>

#include "ridge/device/workspace.h"
#include "ridge/ops/rows/program.h"

struct CUstream_st;

namespace ridge::ops::cuda {

// What stands in the way, as a sentence; none: it runs. Looks at no device.
std::optional<std::string> refuse(const RowProblem& problem);
std::optional<std::string> refuse(const RowProgram& program);
std::optional<std::string> refuse(const ReduceProblem& problem);

// A sentence if the driver refuses the launch. The problem must not be refused. `workspace` has at least
// workspace_bytes(problem) bytes and keeps its counters; only what goes across rows needs any.
std::size_t workspace_bytes(const RowProblem& problem);
std::optional<std::string> rows(const RowProblem& problem, const RowData& data, const Workspace& workspace,
                                CUstream_st* stream);
// Only where kernels are generated. tensors[i]: the data of program.tensors[i].
std::optional<std::string> rows(const RowProgram& program, std::span<void* const> tensors, CUstream_st* stream);

// Sums in f64, in the same order every time. The workspace is as above; of a problem whose points alone fill the device
// it needs none.
std::size_t workspace_bytes(const ReduceProblem& problem);
std::optional<std::string> reduce(const ReduceProblem& problem, const void* x, void* y, const Workspace& workspace,
                                  CUstream_st* stream);
// What a reduction of so many values has left in pieces: f32, side by side in the order of the kept axes.
std::optional<std::string> join_pieces(ReduceProblem problem, std::int64_t pieces, std::int64_t values,
                                       const void* from, void* y, CUstream_st* stream);

}  // namespace ridge::ops::cuda
