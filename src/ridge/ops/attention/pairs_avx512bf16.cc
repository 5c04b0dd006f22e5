// Attention for bf16 on CPUs with AVX512-BF16, which multiply pairs of bf16.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // g++ 12 warns about its own _mm512_undefined_*
#include "ridge/ops/attention/cpu_run.h"
#if defined(__AVX512BF16__)
#include "ridge/tile/cpu/bf16_pairs.h"
//
#include "ridge/ops/attention/cpu_kernel.h"
#endif

namespace ridge::ops::avx512_bf16 {

#if defined(__AVX512BF16__)
void run_attention(const AttentionRun& x) { run_with_type<tile::Bf16Pairs>(x); }
std::size_t attention_scratch_bytes(bool uses_tall_items) {
  return step_memory_bytes<tile::Bf16Pairs>(uses_tall_items);
}
#else
void run_attention(const AttentionRun&) {}
std::size_t attention_scratch_bytes(bool) { return 0; }
#endif

}  // namespace ridge::ops::avx512_bf16
