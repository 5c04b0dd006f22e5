// What a core can do at most: loops that multiply and add in registers and touch no memory, and loops that move memory
// and compute nothing. A roof is measured with these, kernels are compared with it.
//
// A multiply-add takes 4 cycles on today's cores and two start in each, so 8 independent sums keep the units busy; the
// loops have 12 to 24, for the registers there are. Zen 4 runs a 512-bit instruction in two halves: 32 FLOP a cycle in
// f32 where Zen 5 has 64.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "ridge/base/isa.h"

namespace ridge::ops {

struct PeakLoops {
  Isa isa;
  std::int64_t f32_flop;  // of one round
  void (*f32)(std::int64_t rounds);
  std::int64_t bf16_flop;                                  // 0: no instruction multiplies bf16
  void (*bf16)(std::int64_t rounds);                       // null then
  void (*read)(const std::byte* from, std::size_t bytes);  // bytes: a multiple of 256, from: 64-byte aligned
  void (*copy)(std::byte* to, const std::byte* from, std::size_t bytes);  // past the caches, where the CPU can
  // to[i] = a[i] xor b[i], past the caches: the traffic of a kernel that reads two arrays and writes one.
  void (*combine)(std::byte* to, const std::byte* a, const std::byte* b, std::size_t bytes);
  // The same with ordinary stores, for arrays that stay in a cache; `to` may be one of the others.
  void (*copy_cached)(std::byte* to, const std::byte* from, std::size_t bytes);
  void (*combine_cached)(std::byte* to, const std::byte* a, const std::byte* b, std::size_t bytes);
};

// For the instruction set that the kernels use here. The others are here for tests: the CPU must have them.
const PeakLoops& peak_loops();
const PeakLoops& plain_peak_loops();
const PeakLoops& avx2_peak_loops();
const PeakLoops& avx512_peak_loops();
const PeakLoops& avx512_bf16_peak_loops();
const PeakLoops& amx_peak_loops();

// Calls work(0) … work(threads - 1) at the same time on the pool that the kernels use; returns when all have. No work
// may wait for another.
void run_together(int threads, const std::function<void(int)>& work);

}  // namespace ridge::ops
