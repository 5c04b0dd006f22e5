// The compiler's 128-bit vectors: SSE on every x86-64, NEON on every arm64.
#include "ridge/pool/peak_loop.h"

#ifdef __SSE2__
#include <xmmintrin.h>
#endif

namespace ridge::pool {
namespace {

struct Plain {
  using Vector __attribute__((vector_size(16), may_alias)) = float;
  using IntVector __attribute__((vector_size(16), may_alias)) = std::uint32_t;
  static Vector broadcast(float x) { return Vector{x, x, x, x}; }
  static Vector multiply_add(Vector a, Vector b, Vector c) { return a * b + c; }
  static Vector load(const std::byte* from) { return *reinterpret_cast<const Vector*>(from); }
  static Vector xor_bits(Vector a, Vector b) {
    return reinterpret_cast<Vector>(reinterpret_cast<IntVector>(a) ^ reinterpret_cast<IntVector>(b));
  }
  static void do_not_optimize(Vector a) { asm volatile("" : : "m"(a)); }
  static void store(std::byte* to, Vector a) { *reinterpret_cast<Vector*>(to) = a; }
  static void store_non_temporal(std::byte* to, Vector a) {
#ifdef __SSE2__
    _mm_stream_ps(reinterpret_cast<float*>(to), reinterpret_cast<__m128>(a));
#else
    *reinterpret_cast<Vector*>(to) = a;
#endif
  }
  static void store_fence() {
#ifdef __SSE2__
    _mm_sfence();
#endif
  }
};

constexpr int sums = 12;

}  // namespace

const PeakLoops& plain_peak_loops() {
  static constexpr PeakLoops loops{.isa = Isa::plain,
                                   .f32_flop_per_round = 2 * 4 * sums,
                                   .f32 = f32_peak_loop<Plain, sums>,
                                   .bf16_flop_per_round = 0,
                                   .bf16 = nullptr,
                                   .read = read_loop<Plain>,
                                   .copy = copy_loop<Plain, true>,
                                   .xor_arrays = xor_loop<Plain, true>,
                                   .copy_cached = copy_loop<Plain, false>,
                                   .xor_arrays_cached = xor_loop<Plain, false>};
  return loops;
}

}  // namespace ridge::pool
