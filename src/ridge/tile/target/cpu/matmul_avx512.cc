// AVX-512 (F, BW, DQ, VL): 14 x 32 sums in 28 registers. Formats shorter than f32 are widened when they are packed.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // g++ 12 warns about its own _mm512_undefined_*
#include "ridge/tile/target/cpu/block.h"
#if defined(__AVX512F__)
#include "ridge/tile/target/cpu/thin_avx512.h"
#endif

namespace ridge::tile::cpu {

#if defined(__AVX512F__)
namespace {
struct Here {};
using V = FloatVectors512<Here>;

template <class T> constexpr Engine engine_of{
    .rows = 14,
    .cols = 32,
    .per_unit = 1,
    .direct_left = sizeof(T) == 4,
    .direct_right = sizeof(T) == 4,
    .block = block<V, 14, sizeof(T) == 4>,
    .pack_along = pack_along_avx512<Here, T, 1>,
    .pack_across = pack_across_avx512<Here, T, 1>,
};
constexpr Engine floats = [] {
  Engine e = engine_of<float>;
  e.thin_along = thin_along<V, float>;
  e.thin_across = thin_across<V, float>;
  return e;
}();
}  // namespace

const Engine* avx512_engine(DType a, DType b) {
  if (a != b) return nullptr;
  if (a == DType::f32) return &floats;
  if (a == DType::bf16) return &engine_of<Bf16>;
  if (a == DType::f16) return &engine_of<F16>;
  return nullptr;
}
#else
const Engine* avx512_engine(DType, DType) { return nullptr; }
#endif

}  // namespace ridge::tile::cpu
