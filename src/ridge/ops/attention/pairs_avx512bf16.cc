// Attention for bf16 on CPUs with AVX512-BF16, which multiply pairs of bf16.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // g++ 12 warns about its own _mm512_undefined_*
#include "ridge/ops/attention/run.h"
#if defined(__AVX512BF16__)
#include "ridge/tile/cpu/pairs.h"
//
#include "ridge/ops/attention/on_cpu.h"
#endif

namespace ridge::ops::avx512_bf16 {

#if defined(__AVX512BF16__)
void run_attention(const AttentionRun& x) { run_tiles<tile::InPairs>(x); }
std::size_t attention_memory(bool tall) { return memory_of<tile::InPairs>(tall); }
#else
void run_attention(const AttentionRun&) {}
std::size_t attention_memory(bool) { return 0; }
#endif

}  // namespace ridge::ops::avx512_bf16
