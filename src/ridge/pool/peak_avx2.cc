// 256-bit loops with FMA; the 16 registers hold 12 sums and two factors.
#if defined(__AVX2__) && defined(__FMA__)
#include <immintrin.h>

#include "ridge/pool/peak_loop.h"

namespace ridge::pool {
namespace {

struct Avx2 {
  using Vector = __m256;
  static Vector broadcast(float x) { return _mm256_set1_ps(x); }
  static Vector multiply_add(Vector a, Vector b, Vector c) { return _mm256_fmadd_ps(a, b, c); }
  static Vector load(const std::byte* from) { return _mm256_load_ps(reinterpret_cast<const float*>(from)); }
  static Vector xor_bits(Vector a, Vector b) { return _mm256_xor_ps(a, b); }
  static void do_not_optimize(Vector a) { asm volatile("" : : "x"(a)); }
  static void store(std::byte* to, Vector a) { _mm256_store_ps(reinterpret_cast<float*>(to), a); }
  static void store_non_temporal(std::byte* to, Vector a) { _mm256_stream_ps(reinterpret_cast<float*>(to), a); }
  static void store_fence() { _mm_sfence(); }
};

constexpr int sums = 12;

}  // namespace

const PeakLoops& avx2_peak_loops() {
  static constexpr PeakLoops loops{.isa = Isa::avx2,
                                   .f32_flop_per_round = 2 * 8 * sums,
                                   .f32 = f32_peak_loop<Avx2, sums>,
                                   .bf16_flop_per_round = 0,
                                   .bf16 = nullptr,
                                   .read = read_loop<Avx2>,
                                   .copy = copy_loop<Avx2, true>,
                                   .xor_arrays = xor_loop<Avx2, true>,
                                   .copy_cached = copy_loop<Avx2, false>,
                                   .xor_arrays_cached = xor_loop<Avx2, false>};
  return loops;
}

}  // namespace ridge::pool
#endif
