// Declares the functions with which one CPU thread computes attention items and gradients. body.cc and
// backward_body.cc, compiled once per instruction set, and pairs_avx512bf16.cc define them. Internal to ops/attention.
#pragma once

#include <atomic>
#include <cstddef>

#include "ridge/ops/attention/cpu.h"
#include "ridge/ops/attention/model.h"

namespace ridge::ops {

inline constexpr int cpu_attention_keys = 96;  // Keys per step
inline constexpr int tall_item_rows = 128, short_item_rows = 16;

struct AttentionRun {
  const AttentionProblem& problem;
  const AttentionData& data;
  bool uses_tall_items;         // If true, items have tall_item_rows rows, else short_item_rows
  std::atomic<int>* next_item;  // Index of the next item that no thread has taken
  void* memory;                 // attention_scratch_bytes() bytes of this thread, 64-byte aligned
};

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

// For row tiles begin … end - 1 of all heads, `prepare_attention_backward` computes row_stats and clears dq_sums and
// add_counts, and `finish_attention_backward` stores dq.
namespace plain {
void run_attention(const AttentionRun& run);
std::size_t attention_scratch_bytes(bool uses_tall_items);
void prepare_attention_backward(const AttentionBackwardRun& run, std::int64_t begin, std::int64_t end);
void run_attention_backward(const AttentionBackwardRun& run);
void finish_attention_backward(const AttentionBackwardRun& run, std::int64_t begin, std::int64_t end);
std::size_t backward_scratch_bytes();
}  // namespace plain
namespace avx2 {
void run_attention(const AttentionRun& run);
std::size_t attention_scratch_bytes(bool uses_tall_items);
void prepare_attention_backward(const AttentionBackwardRun& run, std::int64_t begin, std::int64_t end);
void run_attention_backward(const AttentionBackwardRun& run);
void finish_attention_backward(const AttentionBackwardRun& run, std::int64_t begin, std::int64_t end);
std::size_t backward_scratch_bytes();
}  // namespace avx2
namespace avx512 {
void run_attention(const AttentionRun& run);
std::size_t attention_scratch_bytes(bool uses_tall_items);
void prepare_attention_backward(const AttentionBackwardRun& run, std::int64_t begin, std::int64_t end);
void run_attention_backward(const AttentionBackwardRun& run);
void finish_attention_backward(const AttentionBackwardRun& run, std::int64_t begin, std::int64_t end);
std::size_t backward_scratch_bytes();
}  // namespace avx512
namespace avx512_bf16 {  // Only for bf16
void run_attention(const AttentionRun& run);
std::size_t attention_scratch_bytes(bool uses_tall_items);
}  // namespace avx512_bf16

namespace {

// Sets `view` to groups of `heads` heads of `rows` rows of `width` elements at `data`; strides are in elements.
template <class View> void set_view(View& view, DType dtype, const void* data, std::int64_t rows, std::int64_t width,
                                    std::int64_t heads, const HeadsLayout& strides) {
  view.data = data;
  view.rows = rows;
  view.cols = width;
  view.row_stride = strides.row;
  view.inner = heads;
  view.inner_stride = strides.head;
  view.outer_stride = strides.outer;
  view.target.dtype = dtype;
}

}  // namespace
}  // namespace ridge::ops
