// AVX-512 (F, BW, DQ, VL) engines: 14 x 32 sums in 28 registers. Formats shorter than f32 are widened when they are
// packed, except int8 * int8, which is multiplied as pairs of int16 with int32 sums.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // g++ 12 warns about its own _mm512_undefined_*
#include "ridge/tile/cpu/block.h"
#if defined(__AVX512F__)
#include "ridge/tile/cpu/pack_small_avx512.h"
#include "ridge/tile/cpu/skinny_avx512.h"
#include "ridge/tile/cpu/small_block.h"
#endif

namespace ridge::tile::cpu {

#if defined(__AVX512F__)
namespace {
struct Avx512Tag {};
using V = FloatVectors512<Avx512Tag>;
using Ints = IntVectors512<Avx512Tag>;

constexpr auto small_product =
    multiply_small_product<V, pack_small_along_k<Avx512Tag>, transpose_sums_avx512<Avx512Tag>>;

template <class A, class B> struct Avx512Widening {
  static constexpr Engine engine{
      .rows = 14,
      .cols = 32,
      .per_unit = 1,
      .left_in_place = sizeof(A) == 4,
      .right_in_place = sizeof(B) == 4,
      .indexes_right = true,
      .multiply_block = dispatch_block<V, 14, sizeof(A) == 4>,
      .multiply_small = sizeof(A) == 4 && sizeof(B) == 4 ? small_product : nullptr,
      .transpose_sums = transpose_sums_avx512<Avx512Tag>,
      .left_packers = packers_avx512<Avx512Tag, A, float>,
      .right_packers = packers_avx512<Avx512Tag, B, float>,
      .skinny_along_k = multiply_skinny_along_k<Dots16<V, float, B>>,
      .skinny_across_k = multiply_skinny_across_k<V, float, B>,
      .max_skinny_along_k_rows = 16,
  };
};
constexpr Engine int8_engine{
    .rows = 14,
    .cols = 32,
    .per_unit = 2,
    .multiply_block = dispatch_block<Ints, 14, false>,
    .left_packers = packers_avx512<Avx512Tag, std::int8_t, std::int16_t>,
    .right_packers = packers_avx512<Avx512Tag, std::int8_t, std::int16_t>,
    .skinny_along_k = multiply_skinny_along_k<Dots16<Ints, std::int16_t, std::int8_t>>,
    .skinny_across_k = multiply_skinny_across_k<Ints, std::int16_t, std::int8_t>,
};

// Products with up to four rows are memory-bound; for them bf16 pairs need fewer instructions.
const Engine* pair_engine() { return avx512_bf16_engine(DType::bf16, DType::bf16); }
constexpr Engine use_pairs_for_few_rows(Engine e) {
  e.few_rows_engine = pair_engine;
  e.few_row_limits = {4, 4, 4};
  return e;
}
constexpr Engine widened_bf16_engine = use_pairs_for_few_rows(Avx512Widening<Bf16, Bf16>::engine),
                 integer_blocks_engine = use_pairs_for_few_rows(Avx512Widening<Bf16, float>::engine);
}  // namespace

const Engine* avx512_engine(DType a, DType b) {
  if (a == DType::int8 && b == DType::int8) return &int8_engine;
  return find_widening_engine<Avx512Widening>(a, b);
}

const Engine* avx512_widened_bf16_engine(DType a, DType b) {
  if (a == DType::int8 && b == DType::int8) return avx512_bf16_engine(a, b);
  if (a == DType::bf16 && b == DType::f32) return &integer_blocks_engine;  // see avx512_bf16_engine
  return a == DType::bf16 && b == DType::bf16 ? &widened_bf16_engine : nullptr;
}
#else
const Engine* avx512_widened_bf16_engine(DType, DType) { return nullptr; }
const Engine* avx512_engine(DType, DType) { return nullptr; }
#endif

}  // namespace ridge::tile::cpu
