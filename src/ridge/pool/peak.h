// Loops that measure the peaks of a core: some only multiply and add in registers, others only move memory. They give
// the roofs with which kernels are compared.
//
// A multiply-add has a latency of 4 cycles and two start per cycle, so 8 independent sums saturate the units; the loops
// use 12 to 24, which the registers limit. Zen 4 splits 512-bit instructions: 32 f32 FLOP a cycle; Zen 5 has 64.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "ridge/base/isa.h"

namespace ridge::pool {

struct PeakLoops {
  Isa isa;
  std::int64_t f32_flop_per_round;
  void (*f32)(std::int64_t rounds);
  std::int64_t bf16_flop_per_round;                                       // 0 if no instruction multiplies bf16
  void (*bf16)(std::int64_t rounds);                                      // defined if bf16_flop_per_round > 0
  void (*read)(const std::byte* from, std::size_t bytes);                 // multiple of 256 bytes, 64-byte aligned
  void (*copy)(std::byte* to, const std::byte* from, std::size_t bytes);  // non-temporal stores if any
  // Stores to[i] = a[i] xor b[i], non-temporal: the traffic of a kernel that reads two arrays and writes one.
  void (*xor_arrays)(std::byte* to, const std::byte* a, const std::byte* b, std::size_t bytes);
  // `copy` and `xor_arrays` with ordinary stores, for arrays that stay in a cache; `to` may equal an input.
  void (*copy_cached)(std::byte* to, const std::byte* from, std::size_t bytes);
  void (*xor_arrays_cached)(std::byte* to, const std::byte* a, const std::byte* b, std::size_t bytes);
};

// Returns the loops for active_isa(). The functions below serve tests; the CPU must have the set that they name.
const PeakLoops& peak_loops();
const PeakLoops& plain_peak_loops();
const PeakLoops& avx2_peak_loops();
const PeakLoops& avx512_peak_loops();
const PeakLoops& avx512_bf16_peak_loops();
const PeakLoops& amx_peak_loops();

// Calls work(0) … work(threads - 1) concurrently on the pool that the kernels use and returns when all have returned. A
// call of `work` must not wait for another one.
void run_concurrently(int threads, const std::function<void(int)>& work);

}  // namespace ridge::pool
