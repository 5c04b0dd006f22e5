// Launches attention's backward kernel and the passes before and after it. Internal to ops/attention.
#pragma once

#include <cuda_runtime.h>

#include "ridge/ops/attention/backward_passes.h"
#include "ridge/ops/attention/backward_plan.h"
#include "ridge/tile/sm90/run_steps.h"

namespace ridge::ops::cuda {

struct AttentionBackwardMaps {
  CUtensorMap q, dout, k, v, dk, dv;
};
struct BackwardLaunchArgs {
  const AttentionBackwardMaps& maps;
  const AttentionBackwardProblem& problem;
  const AttentionBackwardData& data;
  const AttentionBackwardPlan& plan;
  int* counters;
  float *dq_sums, *row_stats;
  int* add_counts;
  int multiprocessors;
  cudaStream_t stream;
};
using BackwardLauncher = cudaError_t (*)(const BackwardLaunchArgs&);

// Returns the launch functions of all configs for inputs of type T; if `ordered`, dq is added in a fixed order.
template <class T>
const std::array<BackwardLauncher, attention_backward_kernel_configs.size()>& backward_launchers(bool ordered);

}  // namespace ridge::ops::cuda
