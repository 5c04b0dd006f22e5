// Computes attention on a CPU. Compiled once for each instruction set.
#include "ridge/ops/attention/cpu_kernel.h"

namespace ridge::ops::RIDGE_BODY_ISA {

void run_attention(const AttentionRun& x) { run_with_type<tile::ComputeAs<float>>(x); }
std::size_t attention_memory(bool tall) { return step_memory_bytes<tile::ComputeAs<float>>(tall); }

}  // namespace ridge::ops::RIDGE_BODY_ISA
