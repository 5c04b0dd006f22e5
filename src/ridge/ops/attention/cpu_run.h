// Attention as one CPU thread runs it: body.cc, compiled once per instruction set, and pairs_avx512bf16.cc. Internal to
// ops/attention.
#pragma once

#include <atomic>
#include <cstddef>

#include "ridge/ops/attention/cpu.h"
#include "ridge/ops/attention/model.h"

namespace ridge::ops {

inline constexpr int cpu_attention_keys = 96;           // Keys per step
inline constexpr int tall_rows = 128, short_rows = 16;  // Rows per item

struct AttentionRun {
  const AttentionProblem& problem;
  const AttentionData& data;
  bool tall;                    // Items have tall_rows rows, else short_rows
  std::atomic<int>* next_item;  // Next item that no thread has taken
  void* memory;                 // attention_memory() bytes of this thread, 64-byte aligned
};

namespace plain {
void run_attention(const AttentionRun& run);
std::size_t attention_memory(bool tall);
}  // namespace plain
namespace avx2 {
void run_attention(const AttentionRun& run);
std::size_t attention_memory(bool tall);
}  // namespace avx2
namespace avx512 {
void run_attention(const AttentionRun& run);
std::size_t attention_memory(bool tall);
}  // namespace avx512
namespace avx512_bf16 {  // Only for bf16
void run_attention(const AttentionRun& run);
std::size_t attention_memory(bool tall);
}  // namespace avx512_bf16

}  // namespace ridge::ops
