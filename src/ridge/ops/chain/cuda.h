// Runs chains on a CUDA device, queued on the caller's stream. A kernel is generated and compiled once for each program
// (device/run_generated.h), so a machine without NVRTC cannot run chains. These functions neither allocate device
// memory nor wait. Data pointers are device memory aligned to their elements.
#pragma once

#include <span>

#include "ridge/base/reason.h"
#include "ridge/base/result.h"
#include "ridge/ops/chain/problem.h"

struct CUstream_st;

namespace ridge::ops::cuda {

// Returns why the program cannot run, for example without NVRTC.
Reason unsupported_reason(const ChainProgram& program);

// Errors: the launch fails. The program must be supported. tensors[i] is the data of
// program.tensors[i].
Status run_chain_program(const ChainProgram& program, std::span<void* const> tensors, CUstream_st* stream);

}  // namespace ridge::ops::cuda
