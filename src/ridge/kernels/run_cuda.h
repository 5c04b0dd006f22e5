// Chains, row functions and reductions on a CUDA device, as menu.h says them, queued on the caller's stream: kernels
// that are generated for the call and compiled once (run_generated.h), or, where no compiler is found, one that
// interprets a chain's steps and one with a block a row. None of them allocates or waits. Data pointers are device
// memory at whole elements. Products are matmul_cuda.h's.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "ridge/kernels/matmul_cuda.h"
#include "ridge/kernels/row_program.h"

struct CUstream_st;

namespace ridge::kernels::cuda {

// What stands in the way, as a sentence; none: it runs. Looks at no device.
std::optional<std::string> refuse(const ChainProgram& program);
std::optional<std::string> refuse(const RowProblem& problem);
std::optional<std::string> refuse(const RowProgram& program);
std::optional<std::string> refuse(const ReduceProblem& problem);

// "interpreted, which is slower: NVRTC is turned off by RIDGE_NVRTC=off; unset it", with the cure last, of chains (and
// row functions, which then run a block a row). Nothing: these kernels are generated.
std::optional<std::string> interpreted();

// A sentence if the driver refuses the launch. The program or problem must not be refused. tensors[i]: the data of
// program.tensors[i].
std::optional<std::string> chain(const ChainProgram& program, std::span<void* const> tensors, CUstream_st* stream);
std::optional<std::string> rows(const RowProblem& problem, const void* x, const void* weight, void* y,
                                CUstream_st* stream);
// Only where kernels are generated.
std::optional<std::string> rows(const RowProgram& program, std::span<void* const> tensors, CUstream_st* stream);

// Sums in f64, in the same order every time. `workspace` (matmul_cuda.h) has at least workspace_bytes(problem) bytes
// and keeps its counters; of a problem whose points alone fill the device it needs none.
std::size_t workspace_bytes(const ReduceProblem& problem);
std::optional<std::string> reduce(const ReduceProblem& problem, const void* x, void* y, const Workspace& workspace,
                                  CUstream_st* stream);

}  // namespace ridge::kernels::cuda
