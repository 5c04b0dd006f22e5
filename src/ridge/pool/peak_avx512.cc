// 512-bit loops; 24 of the 32 registers hold sums.
#ifdef __AVX512F__
#include <immintrin.h>

#include "ridge/pool/peak_loop.h"

namespace ridge::pool {
namespace {

struct Avx512 {
  using Vector = __m512;
  static Vector broadcast(float x) { return _mm512_set1_ps(x); }
  static Vector multiply_add(Vector a, Vector b, Vector c) { return _mm512_fmadd_ps(a, b, c); }
  static Vector load(const std::byte* from) { return _mm512_load_ps(from); }
  static Vector xor_bits(Vector a, Vector b) { return _mm512_xor_ps(a, b); }
  static void do_not_optimize(Vector a) { asm volatile("" : : "v"(a)); }
  static void store(std::byte* to, Vector a) { _mm512_store_ps(to, a); }
  static void store_non_temporal(std::byte* to, Vector a) { _mm512_stream_ps(reinterpret_cast<float*>(to), a); }
  static void store_fence() { _mm_sfence(); }
};

constexpr int sums = 24;

}  // namespace

const PeakLoops& avx512_peak_loops() {
  static constexpr PeakLoops loops{.isa = Isa::avx512,
                                   .f32_flop_per_round = 2 * 16 * sums,
                                   .f32 = f32_peak_loop<Avx512, sums>,
                                   .bf16_flop_per_round = 0,
                                   .bf16 = nullptr,
                                   .read = read_loop<Avx512>,
                                   .copy = copy_loop<Avx512, true>,
                                   .xor_arrays = xor_loop<Avx512, true>,
                                   .copy_cached = copy_loop<Avx512, false>,
                                   .xor_arrays_cached = xor_loop<Avx512, false>};
  return loops;
}

}  // namespace ridge::pool
#endif
