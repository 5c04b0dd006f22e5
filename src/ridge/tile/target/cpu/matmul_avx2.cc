// AVX2 and FMA: 6 x 16 sums in 12 of 16 registers. Formats shorter than f32 are widened when they are packed.
#include "ridge/tile/target/cpu/block.h"
#if defined(__AVX2__)
#include <immintrin.h>

#include "ridge/tile/target/cpu/pack.h"
#endif

namespace ridge::tile::cpu {

#if defined(__AVX2__)
namespace {
struct V {
  using Register = __m256;
  using Sum = float;
  static constexpr int lanes = 8;
  [[gnu::always_inline]] static __m256i mask(int n) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  }
  [[gnu::always_inline]] static Register zero() { return _mm256_setzero_ps(); }
  [[gnu::always_inline]] static Register load(const Unit* p) {
    return _mm256_castsi256_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  }
  [[gnu::always_inline]] static Register load_part(const Unit* p, int) { return load(p); }  // B is packed and padded
  [[gnu::always_inline]] static Register broadcast(Unit x) { return _mm256_castsi256_ps(_mm256_set1_epi32(x)); }
  [[gnu::always_inline]] static Register multiply_add(Register c, Register a, Register b) {
    return _mm256_fmadd_ps(a, b, c);
  }
  [[gnu::always_inline]] static Register sum_add(Register a, Register b) { return _mm256_add_ps(a, b); }
  [[gnu::always_inline]] static Register sum_load(const float* p) { return _mm256_loadu_ps(p); }
  [[gnu::always_inline]] static Register sum_load_part(const float* p, int n) { return _mm256_maskload_ps(p, mask(n)); }
  [[gnu::always_inline]] static void sum_stream(float* p, Register x) { sum_store(p, x); }
  [[gnu::always_inline]] static void sum_store(float* p, Register x) { _mm256_storeu_ps(p, x); }
  [[gnu::always_inline]] static void sum_store_part(float* p, Register x, int n) { _mm256_maskstore_ps(p, mask(n), x); }
};

template <class T> constexpr Engine engine_of{
    .rows = 6,
    .cols = 16,
    .per_unit = 1,
    .block = block<V, 6, false>,
    .pack_along = pack_along<V, T, 1>,
    .pack_across = pack_across<V, T, 1>,
};
}  // namespace

const Engine* avx2_engine(DType a, DType b) {
  if (a != b) return nullptr;
  if (a == DType::f32) return &engine_of<float>;
  if (a == DType::bf16) return &engine_of<Bf16>;
  if (a == DType::f16) return &engine_of<F16>;
  return nullptr;
}
#else
const Engine* avx2_engine(DType, DType) { return nullptr; }
#endif

}  // namespace ridge::tile::cpu
