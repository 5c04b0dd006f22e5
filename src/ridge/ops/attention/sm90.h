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
struct AttentionLaunchArgs {
  const AttentionMaps& maps;
  const AttentionProblem& problem;
  void* o;
  float* lse;
  const AttentionPlan& plan;
  const AttentionConfig& config;
  const AttentionCall& call;  // Supplies the lengths, starts and pages of sequences
  int* counters;
  float* states;  // Workspace for the State of each key split (attention.h)
  int multiprocessors;
  cudaStream_t stream;
};
// Returns the number of keys per TMA box. If k and v are paged, several boxes load a tile, so that no box spans pages.
inline int keys_per_box(const AttentionProblem& p, const AttentionConfig& c) {
  return p.pages ? std::gcd(static_cast<int>(p.pages->rows), c.kv) : c.kv;
}
using AttentionLauncher = cudaError_t (*)(const AttentionLaunchArgs&);

// Returns the launch functions of all configs for inputs of type T, of the ragged kernels if `is_ragged`.
template <class T>
const std::array<AttentionLauncher, attention_kernel_configs.size()>& attention_launchers(bool is_ragged);

}  // namespace ridge::ops::cuda
