// Attention kernels of the menu as the sm90 target runs them. Internal to ops/attention.
#pragma once

#include <cuda_runtime.h>

#include "ridge/ops/attention/attention.h"
#include "ridge/ops/attention/model.h"
#include "ridge/tile/sm90/steps.h"

namespace ridge::ops::cuda {

struct AttentionMaps {
  CUtensorMap q, k, v, o;
};
struct AttentionLaunch {
  const AttentionMaps& maps;
  const AttentionProblem& problem;
  void* o;
  float* lse;
  const AttentionPlan& plan;
  const int* lengths;
  int* counters;
  float* states;  // of the parts
  int multiprocessors;
  cudaStream_t stream;
};
using LaunchAttention = cudaError_t (*)(const AttentionLaunch&);

// Of each config of the menu, for inputs of type T; or of those whose sequences may differ in length.
template <class T> const std::array<LaunchAttention, attention_menu.size()>& attention_kernels(bool is_ragged);

}  // namespace ridge::ops::cuda
