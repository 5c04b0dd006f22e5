// The gradients of attention on this CPU as one thread runs them: backward_body.cc, compiled once for each instruction
// set. Internal to ops/attention.
#pragma once

#include <atomic>
#include <cstddef>

#include "ridge/ops/attention/backward_problem.h"

namespace ridge::ops {

inline constexpr int cpu_backward_keys = 64;  // of an item
inline constexpr int cpu_backward_rows = 64;  // of a step, and of a tile of dq

struct AttentionBackwardRun {
  const AttentionBackwardProblem& problem;
  const AttentionBackwardData& data;
  std::int64_t tiles;      // of a head's rows
  float* numbers;          // of each tile: what its rows are weighed by (backward.h)
  float* sums;             // of dq, of each tile
  int* turns;              // of each tile: items that have added to it
  std::atomic<int>* next;  // item that nobody has taken
  void* memory;            // attention_backward_memory() bytes of this thread, at a multiple of 64
};

// Before it, numbers, and sums and turns that are zero, of tiles begin … end - 1 of all heads; behind it, dq.
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
