// Attention on a CUDA device in one kernel, queued on the caller's stream: only o is written. Its backward pass is a
// kernel with a pass before and one behind it; only dq, dk and dv are written. Data pointers are device memory at
// multiples of 16 bytes.
#pragma once

#include <optional>
#include <string>

#include "ridge/device/workspace.h"
#include "ridge/ops/attention/backward_plan.h"
#include "ridge/ops/attention/model.h"

struct CUstream_st;

namespace ridge::ops::cuda {

struct AttentionCall {
  AttentionProblem problem;
  const void *q = nullptr, *k = nullptr, *v = nullptr;
  void* o = nullptr;
  float* lse = nullptr;          // [outer, heads, rows]: ln of the sum of a row's exponentials; null: not wanted
  const int* lengths = nullptr;  // [outer], of a problem that has lengths; packed without pages it has key_starts
  const int *row_starts = nullptr, *key_starts = nullptr;  // [outer + 1], of one that is packed; keys: without pages
  const int* pages = nullptr;                              // [outer, keys / rows of a page], of one that has pages
};

// A sentence if the driver refuses the launch. The problem must not be refused; the workspace has counter_bytes and
// the plan's workspace_bytes.
std::optional<std::string> launch(const AttentionCall& call, const AttentionPlan& plan, const Workspace& workspace,
                                  CUstream_st* stream);

struct AttentionBackwardCall {
  AttentionBackwardProblem problem;
  AttentionBackwardData data;
};
std::optional<std::string> launch(const AttentionBackwardCall& call, const AttentionBackwardPlan& plan,
                                  const Workspace& workspace, CUstream_st* stream);

}  // namespace ridge::ops::cuda
