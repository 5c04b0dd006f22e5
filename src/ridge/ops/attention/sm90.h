// Launches attention kernels on the sm90 target. Internal to ops/attention.
#pragma once

#include <cuda_runtime.h>

#include <numeric>

#include "ridge/ops/attention/attention.h"
#include "ridge/ops/attention/cuda.h"
#include "ridge/ops/attention/model.h"
#include "ridge/tile/sm90/run_steps.h"

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
  const AttentionCall& call;  // Holds the lengths, starts and pages of sequences
  int* counters;
  float* states;  // States of the splits
  int multiprocessors;
  cudaStream_t stream;
};
// Returns the keys per TMA box. Several boxes load a tile, so that no box spans two pages.
inline int rows_per_box(const AttentionProblem& p, const AttentionConfig& c) {
  return p.pages ? std::gcd(static_cast<int>(p.pages->rows), c.kv) : c.kv;
}
using LaunchAttention = cudaError_t (*)(const AttentionLaunch&);

// Returns the launch functions of all configs for inputs of type T, of the ragged kernels if `is_ragged`.
template <class T>
const std::array<LaunchAttention, attention_kernel_configs.size()>& attention_kernels(bool is_ragged);

}  // namespace ridge::ops::cuda
