// Launches one of the backward menu's kernels with the passes around it. Internal to ops/attention.
#pragma once

#include <cuda_runtime.h>

#include "ridge/ops/attention/backward_passes.h"
#include "ridge/ops/attention/backward_plan.h"
#include "ridge/tile/sm90/steps.h"

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
  float *sums, *numbers;
  int* turns;
  int multiprocessors;
  cudaStream_t stream;
};
using LaunchAttentionBackward = cudaError_t (*)(const AttentionBackwardLaunch&);

// Of each config of the menu, for inputs of type T; in order where `ordered`.
template <class T>
const std::array<LaunchAttentionBackward, attention_backward_menu.size()>& attention_backward_kernels(bool ordered);

}  // namespace ridge::ops::cuda
