// vdpbf16ps adds two products to each of 16 sums: 64 FLOP an instruction. All other loops are those of 512-bit f32.
#ifdef __AVX512BF16__
#include <immintrin.h>

#include "ridge/pool/peak.h"

namespace ridge::pool {
namespace {

constexpr int sums = 24;

void bf16_peak_loop(std::int64_t rounds) {
  __m512 acc[sums];
  volatile float small = 1e-3F;
  const __m512bh factor = _mm512_cvtne2ps_pbh(_mm512_set1_ps(small), _mm512_set1_ps(small));
  for (int i = 0; i < sums; ++i) acc[i] = _mm512_setzero_ps();
  for (std::int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 32
    for (int i = 0; i < sums; ++i) acc[i] = _mm512_dpbf16_ps(acc[i], factor, factor);
  }
  for (int i = 0; i < sums; ++i) asm volatile("" : : "v"(acc[i]));
}

}  // namespace

const PeakLoops& avx512_bf16_peak_loops() {
  static const PeakLoops loops = [] {
    PeakLoops with = avx512_peak_loops();
    with.isa = Isa::avx512_bf16;
    with.bf16_flop_per_round = 2 * 2 * 16 * sums;
    with.bf16 = bf16_peak_loop;
    return with;
  }();
  return loops;
}

}  // namespace ridge::pool
#endif
