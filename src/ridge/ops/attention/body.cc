// Computes attention on a CPU. Compiled once for each instruction set.
#include "ridge/ops/attention/on_cpu.h"

namespace ridge::ops::RIDGE_BODY_ISA {

void run_attention(const AttentionRun& x) { run_tiles<tile::InLanes<float>>(x); }
std::size_t attention_memory(bool tall) { return memory_of<tile::InLanes<float>>(tall); }

}  // namespace ridge::ops::RIDGE_BODY_ISA
