// Launches attention's backward kernel with the passes before and after it. Internal to ops/attention.
#pragma once

#include <cuda_runtime.h>

#include "ridge/ops/attention/backward_passes.h"
#include "ridge/ops/attention/backward_plan.h"
#include "ridge/tile/sm90/run_steps.h"

namespace ridge::ops::cuda {

struct AttentionBackwardMaps {
  CUtensorMap q, dout, k, v, dk, dv;
};
struct AttentionBackwardLaunch {
  const AttentionBackwardMaps& maps;
  const AttentionBackwardProblem& problem;
  const AttentionBackwardData& data;
  const AttentionBackwardPlan& plan;
  int* counters;
  float *sums, *row_stats;
  int* add_counts;
  int multiprocessors;
  cudaStream_t stream;
};
using LaunchAttentionBackward = cudaError_t (*)(const AttentionBackwardLaunch&);

// Returns the launch functions of all configs for inputs of type T, with adds in a fixed order if `ordered`.
template <class T>
const std::array<LaunchAttentionBackward, attention_backward_kernel_configs.size()>& attention_backward_kernels(
    bool ordered);

}  // namespace ridge::ops::cuda
