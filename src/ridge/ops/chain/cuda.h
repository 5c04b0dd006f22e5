// Chains on a CUDA device, queued on the caller's stream: a kernel that is generated for the call and compiled once
// (device/run_generated.h), or, where no compiler is found, one that interprets a chain's steps. It neither allocates
// nor waits. Data pointers are device memory at whole elements.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "ridge/ops/chain/problem.h"

struct CUstream_st;

namespace ridge::ops::cuda {

// What stands in the way, as a sentence; none: it runs. Looks at no device.
std::optional<std::string> refuse(const ChainProgram& program);

// A sentence if the driver refuses the launch. The program must not be refused. tensors[i]: the data of
// program.tensors[i].
std::optional<std::string> chain(const ChainProgram& program, std::span<void* const> tensors, CUstream_st* stream);

}  // namespace ridge::ops::cuda
