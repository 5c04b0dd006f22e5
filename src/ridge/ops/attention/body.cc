// Computes attention on a CPU. Compiled once for each instruction set.
#include "ridge/ops/attention/cpu_kernel.h"

namespace ridge::ops::RIDGE_BODY_ISA {

void run_attention(const AttentionRun& x) { run_with_type<tile::ComputeAs<float>>(x); }
std::size_t attention_scratch_bytes(bool uses_tall_items) {
  return step_memory_bytes<tile::ComputeAs<float>>(uses_tall_items);
}

}  // namespace ridge::ops::RIDGE_BODY_ISA
