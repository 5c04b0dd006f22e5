// Declares the functions with which one CPU thread computes attention's gradients. backward_body.cc, compiled once per
// instruction set, defines them. Internal to ops/attention.
#pragma once

#include <atomic>
#include <cstddef>

#include "ridge/ops/attention/backward_problem.h"

namespace ridge::ops {

inline constexpr int cpu_backward_keys = 64;  // Keys per item
inline constexpr int cpu_backward_rows = 64;  // Query rows per step and per tile of dq

struct AttentionBackwardRun {
  const AttentionBackwardProblem& problem;
  const AttentionBackwardData& data;
  std::int64_t tiles_per_head;  // Row tiles per query head
  float* row_stats;             // For each row tile, lse * log2(e) of its rows, then their deltas (backward.h)
  float* dq_sums;               // Partial sums of dq, tile by tile
  int* add_counts;              // Number of items that have added to each tile
  std::atomic<int>* next_item;  // Index of the next item that no thread has taken
  void* memory;                 // backward_scratch_bytes() bytes of this thread, 64-byte aligned
};

// For row tiles begin … end - 1 of all heads, `prepare` computes row_stats and clears dq_sums and add_counts, and
// `finish` stores dq.
namespace plain {
void prepare_attention_backward(const AttentionBackwardRun& run, std::int64_t begin, std::int64_t end);
void run_attention_backward(const AttentionBackwardRun& run);
void finish_attention_backward(const AttentionBackwardRun& run, std::int64_t begin, std::int64_t end);
std::size_t backward_scratch_bytes();
}  // namespace plain
namespace avx2 {
void prepare_attention_backward(const AttentionBackwardRun& run, std::int64_t begin, std::int64_t end);
void run_attention_backward(const AttentionBackwardRun& run);
void finish_attention_backward(const AttentionBackwardRun& run, std::int64_t begin, std::int64_t end);
std::size_t backward_scratch_bytes();
}  // namespace avx2
namespace avx512 {
void prepare_attention_backward(const AttentionBackwardRun& run, std::int64_t begin, std::int64_t end);
void run_attention_backward(const AttentionBackwardRun& run);
void finish_attention_backward(const AttentionBackwardRun& run, std::int64_t begin, std::int64_t end);
std::size_t backward_scratch_bytes();
}  // namespace avx512

}  // namespace ridge::ops
