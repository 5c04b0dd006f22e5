// Attention's backward pass as one CPU thread runs it: backward_body.cc, compiled once per instruction set. Internal to
// ops/attention.
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
  std::int64_t tiles_per_head;  // Row tiles per head
  float* row_stats;             // Log-sum and delta of each row (backward.h), tile by tile
  float* sums;                  // Partial sums of dq, tile by tile
  int* add_counts;              // Number of items that have added to each tile
  std::atomic<int>* next_item;  // Next item that no thread has taken
  void* memory;                 // attention_backward_memory() bytes of this thread, 64-byte aligned
};

// For tiles begin … end - 1 of all heads, `prepare` computes the numbers and clears sums and counts; `finish` stores
// dq.
namespace plain {
void prepare_attention_backward(const AttentionBackwardRun& run, std::int64_t begin, std::int64_t end);
void run_attention_backward(const AttentionBackwardRun& run);
void finish_attention_backward(const AttentionBackwardRun& run, std::int64_t begin, std::int64_t end);
std::size_t attention_backward_memory();
}  // namespace plain
namespace avx2 {
void prepare_attention_backward(const AttentionBackwardRun& run, std::int64_t begin, std::int64_t end);
void run_attention_backward(const AttentionBackwardRun& run);
void finish_attention_backward(const AttentionBackwardRun& run, std::int64_t begin, std::int64_t end);
std::size_t attention_backward_memory();
}  // namespace avx2
namespace avx512 {
void prepare_attention_backward(const AttentionBackwardRun& run, std::int64_t begin, std::int64_t end);
void run_attention_backward(const AttentionBackwardRun& run);
void finish_attention_backward(const AttentionBackwardRun& run, std::int64_t begin, std::int64_t end);
std::size_t attention_backward_memory();
}  // namespace avx512

}  // namespace ridge::ops
