// AVX-512 (F, BW, DQ, VL) engines: 14 x 32 sums in 28 registers. Formats shorter than f32 are widened when they are
// packed, except int8 * int8, which is multiplied as pairs of int16 with int32 sums.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // g++ 12 warns about its own _mm512_undefined_*
#include "ridge/tile/cpu/block.h"
#if defined(__AVX512F__)
#include "ridge/tile/cpu/thin_avx512.h"
#endif

namespace ridge::tile::cpu {

#if defined(__AVX512F__)
namespace {
struct Here {};
using V = FloatVectors512<Here>;
using Ints = IntVectors512<Here>;

template <class A, class B> struct Widening {
  static constexpr Engine engine{
      .rows = 14,
      .cols = 32,
      .per_unit = 1,
      .direct_left = sizeof(A) == 4,
      .direct_right = sizeof(B) == 4,
      .block = block<V, 14, sizeof(A) == 4>,
      .left = packers_avx512<Here, A, float>,
      .right = packers_avx512<Here, B, float>,
      .thin_along = thin_along<Dots16<V, float, B>>,
      .thin_across = thin_across<V, float, B>,
      .most_thin_along = 16,
  };
};
constexpr Engine integers{
    .rows = 14,
    .cols = 32,
    .per_unit = 2,
    .block = block<Ints, 14, false>,
    .left = packers_avx512<Here, std::int8_t, std::int16_t>,
    .right = packers_avx512<Here, std::int8_t, std::int16_t>,
    .thin_along = thin_along<Dots16<Ints, std::int16_t, std::int8_t>>,
    .thin_across = thin_across<Ints, std::int16_t, std::int8_t>,
};

// Up to four rows are memory-bound, and bf16 pairs need fewer instructions.
const Engine* of_pairs() { return avx512_bf16_engine(DType::bf16, DType::bf16); }
constexpr Engine wide_bf16 = [] {
  Engine e = Widening<Bf16, Bf16>::engine;
  e.for_few = of_pairs;
  e.few = {4, 4, 4};
  return e;
}();
}  // namespace

const Engine* avx512_engine(DType a, DType b) {
  if (a == DType::int8 && b == DType::int8) return &integers;
  return widening_engine<Widening>(a, b);
}

const Engine* avx512_wide_bf16_engine(DType a, DType b) {
  if (a == DType::int8 && b == DType::int8) return avx512_bf16_engine(a, b);
  return a == DType::bf16 && b == DType::bf16 ? &wide_bf16 : nullptr;
}
#else
const Engine* avx512_wide_bf16_engine(DType, DType) { return nullptr; }
const Engine* avx512_engine(DType, DType) { return nullptr; }
#endif

}  // namespace ridge::tile::cpu
