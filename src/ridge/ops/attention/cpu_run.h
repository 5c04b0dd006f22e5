// Declares the functions with which one CPU thread computes attention items. body.cc, compiled once per instruction
// set, and pairs_avx512bf16.cc define them. Internal to ops/attention.
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

namespace plain {
void run_attention(const AttentionRun& run);
std::size_t attention_scratch_bytes(bool uses_tall_items);
}  // namespace plain
namespace avx2 {
void run_attention(const AttentionRun& run);
std::size_t attention_scratch_bytes(bool uses_tall_items);
}  // namespace avx2
namespace avx512 {
void run_attention(const AttentionRun& run);
std::size_t attention_scratch_bytes(bool uses_tall_items);
}  // namespace avx512
namespace avx512_bf16 {  // Only for bf16
void run_attention(const AttentionRun& run);
std::size_t attention_scratch_bytes(bool uses_tall_items);
}  // namespace avx512_bf16

}  // namespace ridge::ops
