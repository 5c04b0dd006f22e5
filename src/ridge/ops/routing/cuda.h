// Routes rows to their groups and back on a CUDA device, on the caller's stream. Needs no CUDA header.
#pragma once

#include <span>

#include "ridge/base/reason.h"
#include "ridge/base/result.h"
#include "ridge/ops/routing/problem.h"

struct CUstream_st;

namespace ridge::ops::cuda {

inline Reason unsupported_reason(const RoutingProblem& rows) { return ops::unsupported_reason(rows); }

// Queues the kernels; problem.h lists the tensors of `data`, which are in device memory. The row map is deterministic.
// Errors: the driver rejects a launch.
Status route_rows(const RoutingProblem& rows, std::span<void* const> data, CUstream_st* stream);

}  // namespace ridge::ops::cuda
