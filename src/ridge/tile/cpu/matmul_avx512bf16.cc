// AVX512_BF16 and VNNI engines. AVX512_BF16: a unit is a pair of bf16 along k, and vdpbf16ps multiplies and adds 16
// pairs at the rate of 16 f32. VNNI: a unit is four int8 (a quad), and vpdpbusd multiplies and adds 16 quads.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // g++ 12 warns about its own _mm512_undefined_*
#include "ridge/tile/cpu/block.h"
#if defined(__AVX512BF16__)
#include "ridge/tile/cpu/thin_avx512.h"
#endif

namespace ridge::tile::cpu {

#if defined(__AVX512BF16__)
namespace {
struct Here {};
struct V : FloatVectors512<Here> {
  [[gnu::always_inline]] static Register multiply_add(Register c, Register a, Register b) {
    asm("vdpbf16ps %2, %1, %0" : "+v"(c) : "v"(b), "v"(a));
    return c;
  }
  [[gnu::always_inline]] static Register multiply_add_at(Register c, const Unit& a, Register b) {
    asm("vdpbf16ps %2%{1to16%}, %1, %0" : "+v"(c) : "v"(b), "m"(a));
    return c;
  }
};

using Quads = QuadVectors512<Here>;

// With few rows, widening the int8 of B is the limit: to f32 it takes two instructions for 16 elements, to bf16 pairs
// five for 32, and a core may multiply pairs at half the rate (Emerald Rapids does).
const Engine* widened() { return avx512_engine(DType::bf16, DType::int8); }

template <class A, class B> constexpr Engine pairs{
    .rows = 14,
    .cols = 32,
    .per_unit = 2,
    .direct_left = sizeof(A) == 2,
    .block = block<V, 14, sizeof(A) == 2>,
    .left = packers_avx512<Here, A, Bf16>,
    .right = packers_avx512<Here, B, Bf16>,
    .thin_along = thin_along<Dots16<V, Bf16, B>>,
    .thin_across = thin_across<V, Bf16, B>,
    .for_few = sizeof(B) == 1 ? widened : nullptr,
};
constexpr Engine integers{
    .rows = 14,
    .cols = 32,
    .per_unit = 4,
    .left_tail = Quads::left_tail,
    .block = block<Quads, 14, false>,
    .left = packers_avx512<Here, std::int8_t, std::int8_t, Quads::left_tail>,
    .right = packers_avx512<Here, std::int8_t, std::uint8_t>,
    .thin_along = thin_along<Dots16<Quads, std::uint8_t, std::int8_t>>,
    .thin_across = thin_across<Quads, std::uint8_t, std::int8_t>,
    .most_thin_along = 2 * most_thin_rows,
};
}  // namespace

const Engine* avx512_bf16_engine(DType a, DType b) {
  if (a == DType::bf16 && b == DType::bf16) return &pairs<Bf16, Bf16>;
  if (a == DType::bf16 && b == DType::int8) return &pairs<Bf16, std::int8_t>;
  if (a == DType::int8 && b == DType::bf16) return &pairs<std::int8_t, Bf16>;
  if (a == DType::int8 && b == DType::int8) return &integers;
  return nullptr;
}

#else
const Engine* avx512_bf16_engine(DType, DType) { return nullptr; }
#endif

}  // namespace ridge::tile::cpu
