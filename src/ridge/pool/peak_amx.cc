// tdpbf16ps computes 16 x 16 sums of 32 products each: 16,384 FLOP an instruction, one every 16 cycles. Six tiles of
// sums hide its latency of 52 cycles. All other loops are those of 512-bit vectors.
#ifdef __AVX512BF16__
#include "ridge/pool/peak.h"

namespace ridge::pool {
namespace {

constexpr int sums = 6;

void bf16_tile_loop(std::int64_t rounds) {
  struct alignas(64) {
    std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
    std::uint16_t bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
    std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
  } const shapes;
  asm volatile("ldtilecfg %0" : : "m"(shapes));  // also zeroes all tiles
  for (std::int64_t i = 0; i < rounds; ++i)
    asm volatile(
        "tdpbf16ps %%tmm7, %%tmm6, %%tmm0\n\ttdpbf16ps %%tmm7, %%tmm6, %%tmm1\n\ttdpbf16ps %%tmm7, %%tmm6, %%tmm2\n\t"
        "tdpbf16ps %%tmm7, %%tmm6, %%tmm3\n\ttdpbf16ps %%tmm7, %%tmm6, %%tmm4\n\ttdpbf16ps %%tmm7, %%tmm6, %%tmm5"
        :);
  asm volatile("tilerelease");
}

}  // namespace

const PeakLoops& amx_peak_loops() {
  static const PeakLoops loops = [] {
    PeakLoops with = avx512_bf16_peak_loops();
    with.isa = Isa::amx;
    with.bf16_flop_per_round = 2 * 16 * 16 * 32 * sums;
    with.bf16 = bf16_tile_loop;
    return with;
  }();
  return loops;
}

}  // namespace ridge::pool
#endif
