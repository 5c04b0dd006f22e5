// AVX2 and FMA engines: 6 x 16 sums in 12 of 16 registers. Formats shorter than f32 are widened when they are packed,
// except int8 * int8, which is multiplied as pairs of int16 with int32 sums.
#include "ridge/tile/cpu/block.h"
#if defined(__AVX2__)
#include <immintrin.h>

#include "ridge/tile/cpu/skinny_across_avx2.h"
#include "ridge/tile/cpu/skinny_along_avx2.h"
#include "ridge/tile/cpu/small_block.h"
#endif

namespace ridge::tile::cpu {

#if defined(__AVX2__)
namespace {
struct V {
  using Register = __m256;
  using Sum = float;
  static constexpr int lanes = 8;
  [[gnu::always_inline]] static __m256i lane_mask(int n) { return first_lanes_mask8<V>(n); }
  [[gnu::always_inline]] static Register zero() { return _mm256_setzero_ps(); }
  [[gnu::always_inline]] static Register load(const Unit* p) {
    return _mm256_loadu_ps(reinterpret_cast<const float*>(p));
  }
  [[gnu::always_inline]] static Register load_part(const Unit* p, int n) {
    return _mm256_maskload_ps(reinterpret_cast<const float*>(p), lane_mask(n));
  }
  [[gnu::always_inline]] static void store_packed(Unit* p, Register x) {
    _mm256_storeu_ps(reinterpret_cast<float*>(p), x);
  }
  [[gnu::always_inline]] static Register broadcast(Unit x) { return _mm256_set1_ps(__builtin_bit_cast(float, x)); }
  [[gnu::always_inline]] static Register multiply_add(Register c, Register a, Register b) {
    // Updates the sum in its register; with the intrinsic the compiler spills two sums to memory.
    asm("vfmadd231ps %2, %1, %0" : "+x"(c) : "x"(a), "x"(b));
    return c;
  }
  [[gnu::always_inline]] static Register sum_add(Register a, Register b) { return _mm256_add_ps(a, b); }
  [[gnu::always_inline]] static Register sum_load(const float* p) { return _mm256_loadu_ps(p); }
  [[gnu::always_inline]] static Register sum_load_part(const float* p, int n) {
    return _mm256_maskload_ps(p, lane_mask(n));
  }
  [[gnu::always_inline]] static void sum_store(float* p, Register x) { _mm256_storeu_ps(p, x); }
  [[gnu::always_inline]] static void sum_store_part(float* p, Register x, int n) { store_first_lanes<V>(p, x, n); }
};

struct Ints {  // a unit is two int16 along k
  using Register = __m256i;
  using Sum = std::int32_t;
  static constexpr int lanes = 8;
  [[gnu::always_inline]] static const __m256i* vector_address(const void* p) { return static_cast<const __m256i*>(p); }
  [[gnu::always_inline]] static Register zero() { return _mm256_setzero_si256(); }
  [[gnu::always_inline]] static Register load(const Unit* p) { return _mm256_loadu_si256(vector_address(p)); }
  [[gnu::always_inline]] static Register load_part(const Unit* p, int) { return load(p); }  // B is packed and padded
  [[gnu::always_inline]] static Register broadcast(Unit x) { return _mm256_set1_epi32(x); }
  [[gnu::always_inline]] static Register multiply_add(Register c, Register a, Register b) {
    Register product;  // one asm for both: else the compiler computes products of four steps first and spills
    asm("vpmaddwd %3, %2, %1\n\tvpaddd %1, %0, %0" : "+x"(c), "=&x"(product) : "x"(a), "x"(b));
    return c;
  }
  [[gnu::always_inline]] static Register sum_add(Register a, Register b) { return _mm256_add_epi32(a, b); }
  [[gnu::always_inline]] static Register sum_load(const Sum* p) { return _mm256_loadu_si256(vector_address(p)); }
  [[gnu::always_inline]] static Register sum_load_part(const Sum* p, int n) {
    return _mm256_maskload_epi32(p, V::lane_mask(n));
  }
  [[gnu::always_inline]] static void sum_store(Sum* p, Register x) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), x);
  }
  [[gnu::always_inline]] static void sum_store_part(Sum* p, Register x, int n) {
    _mm256_maskstore_epi32(p, V::lane_mask(n), x);
  }
};

constexpr auto small_product = multiply_small_product<V, pack_along_k_avx2<V, float>, transpose_sums_avx2<V>>;

template <class A, class B> struct Avx2Widening {
  static constexpr Engine engine{
      .rows = 6,
      .cols = 16,
      .per_unit = 1,
      .left_in_place = sizeof(A) == 4,
      .right_in_place = sizeof(B) == 4,
      .block_packs_right = sizeof(B) == 4,
      .multiply_block = dispatch_block<V, 6, sizeof(A) == 4>,
      .multiply_small = sizeof(A) == 4 && sizeof(B) == 4 ? small_product : nullptr,
      .transpose_sums = transpose_sums_avx2<V>,
      .left_packers = packers_avx2<V, A>,
      .right_packers = packers_avx2<V, B>,
      .skinny_along_k = skinny_along_k_avx2<V, B>,
      .skinny_across_k = skinny_across_k_avx2<V, B>,
      .skinny_packed = skinny_across_k_avx2<V, float>,
      .needs_sum_scratch = true,
      .few_rows_k_block_units = dots_k_block_avx2,
  };
};
constexpr Engine int8_engine{
    .rows = 6,
    .cols = 16,
    .per_unit = 2,
    .multiply_block = dispatch_block<Ints, 6, false>,
    .left_packers = left_pairs_avx2<V>,
    .right_packers = right_pairs_avx2<V>,
};
}  // namespace

const Engine* avx2_engine(DType a, DType b) {
  if (a == DType::int8 && b == DType::int8) return &int8_engine;
  return find_widening_engine<Avx2Widening>(a, b);
}
#else
const Engine* avx2_engine(DType, DType) { return nullptr; }
#endif

}  // namespace ridge::tile::cpu
