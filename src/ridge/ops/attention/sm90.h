// Attention kernels of the menu as the sm90 target runs them. Internal to ops/attention.
#pragma once

#include <cuda_runtime.h>

#include <numeric>

#include "ridge/ops/attention/attention.h"
#include "ridge/ops/attention/cuda.h"
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
  const AttentionConfig& config;
  const AttentionCall& call;  // lengths and where sequences lie
  int* counters;
  float* states;  // of the parts
  int multiprocessors;
  cudaStream_t stream;
};
// Keys in one of the boxes that a tile of them is loaded in: none lies in two pages.
inline int rows_of_box(const AttentionProblem& p, const AttentionConfig& c) {
  return p.pages ? std::gcd(static_cast<int>(p.pages->rows), c.kv) : c.kv;
}
using LaunchAttention = cudaError_t (*)(const AttentionLaunch&);

// Of each config of the menu, for inputs of type T; or of those whose sequences may differ in length.
template <class T> const std::array<LaunchAttention, attention_menu.size()>& attention_kernels(bool is_ragged);

}  // namespace ridge::ops::cuda
