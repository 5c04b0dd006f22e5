// Fused attention on a CUDA device, queued on the caller's stream: one kernel, which stores only o and lse. The
// backward pass is a kernel with one pass before and one after it, which store dq, dk and dv. Pointers are device
// memory, 16-byte aligned.
#pragma once

#include "ridge/base/result.h"
#include "ridge/device/workspace.h"
#include "ridge/ops/attention/backward_plan.h"
#include "ridge/ops/attention/model.h"

struct CUstream_st;

namespace ridge::ops::cuda {

struct AttentionCall {
  AttentionProblem problem;
  const void *q = nullptr, *k = nullptr, *v = nullptr;
  void* o = nullptr;
  float* lse = nullptr;          // [outer, heads, rows]: log of each row's sum of exponentials; null if not needed
  const int* lengths = nullptr;  // [outer], if the problem has lengths, unless it has key_starts
  const int *row_starts = nullptr, *key_starts = nullptr;  // [outer + 1], if packed; key_starts only without pages
  const int* pages = nullptr;                              // [outer, keys / rows per page], if it has pages
};

// Errors: the launch fails. The problem must be supported; the workspace must have counter_bytes
// plus the plan's workspace_bytes.
Status launch(const AttentionCall& call, const AttentionPlan& plan, const device::DeviceWorkspace& workspace,
              CUstream_st* stream);

struct AttentionBackwardCall {
  AttentionBackwardProblem problem;
  AttentionBackwardData data;
};
Status launch(const AttentionBackwardCall& call, const AttentionBackwardPlan& plan,
              const device::DeviceWorkspace& workspace, CUstream_st* stream);

}  // namespace ridge::ops::cuda
