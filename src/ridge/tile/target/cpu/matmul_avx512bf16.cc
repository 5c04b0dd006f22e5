// AVX512_BF16: a unit is a pair of bf16 along k, and vdpbf16ps multiplies and adds 16 pairs at the rate of 16 f32.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // g++ 12 warns about its own _mm512_undefined_*
#include "ridge/tile/target/cpu/block.h"
#if defined(__AVX512BF16__)
#include "ridge/tile/target/cpu/thin_avx512.h"
#endif

namespace ridge::tile::cpu {

#if defined(__AVX512BF16__)
namespace {
struct Here {};
struct V : FloatVectors512<Here> {
  [[gnu::always_inline]] static Register multiply_add(Register c, Register a, Register b) {
    return _mm512_dpbf16_ps(c, __builtin_bit_cast(__m512bh, a), __builtin_bit_cast(__m512bh, b));
  }
};

constexpr Engine pairs{
    .rows = 14,
    .cols = 32,
    .per_unit = 2,
    .direct_left = true,
    .block = block<V, 14, true>,
    .pack_along = pack_along_avx512<Here, Bf16, 2>,
    .pack_across = pack_across_avx512<Here, Bf16, 2>,
    .thin_along = thin_along<V, Bf16>,
    .thin_across = thin_across<V, Bf16>,
};
}  // namespace

const Engine* avx512_bf16_engine(DType a, DType b) { return a == DType::bf16 && b == DType::bf16 ? &pairs : nullptr; }
#else
const Engine* avx512_bf16_engine(DType, DType) { return nullptr; }
#endif

}  // namespace ridge::tile::cpu
