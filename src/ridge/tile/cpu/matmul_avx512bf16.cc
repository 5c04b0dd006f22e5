// AVX512_BF16 and VNNI engines. AVX512_BF16: a unit is a pair of bf16 along k, and vdpbf16ps multiplies and adds 16
// pairs at the rate of 16 f32. VNNI: a unit is four int8 (a quad), and vpdpbusd multiplies and adds 16 quads.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // g++ 12 warns about its own _mm512_undefined_*
#include "ridge/tile/cpu/block.h"
#if defined(__AVX512BF16__)
#include "ridge/base/block_scale_avx512.h"
#include "ridge/tile/cpu/skinny_avx512.h"
#endif

namespace ridge::tile::cpu {

#if defined(__AVX512BF16__)
namespace {
struct Bf16Tag {};
struct V : FloatVectors512<Bf16Tag> {
  [[gnu::always_inline]] static Register multiply_add(Register c, Register a, Register b) {
    asm("vdpbf16ps %2, %1, %0" : "+v"(c) : "v"(b), "v"(a));
    return c;
  }
  [[gnu::always_inline]] static Register multiply_add_at(Register c, const Unit& a, Register b) {
    asm("vdpbf16ps %2%{1to16%}, %1, %0" : "+v"(c) : "v"(b), "m"(a));
    return c;
  }
  // The conversion flushes subnormal numbers to 0, as vdpbf16ps has done with the sums of each stage of k.
  [[gnu::always_inline]] static void sum_store_rounded(Bf16* p, Register x) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(x)));
  }
  [[gnu::always_inline]] static void sum_store_rounded_part(Bf16* p, Register x, __mmask16 part) {
    _mm256_mask_storeu_epi16(p, part, reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(x)));
  }
};

using QuadVectors = QuadVectors512<Bf16Tag>;

// A byte of a column that consists of blocks with scales. `load` decodes the block or blocks that begin with it.
template <DType dtype> struct BlockByte {
  std::uint8_t byte;
  static constexpr int columns(int of_rows) { return of_rows > 4 ? 3 : 4; }
  static constexpr Index bytes_of(Index elements) { return stored_bytes(dtype, elements); }
  [[gnu::always_inline]] static __m512i load(const BlockByte* at, Index left) {
    return decode_32_elements<dtype>(&at->byte, left < 32);
  }
};

// Dot products of bf16 and blocks of int4 or u4. The integers are exact in bf16, the products with their scale are not:
// the products of a block are added, and the sum is multiplied by the f32 value of the scale.
template <DType dtype> struct IntegerBlockDots : Dots16<V, Bf16, BlockByte<dtype>> {
  using Dots = Dots16<V, Bf16, BlockByte<dtype>>;
  using Register = V::Register;
  // Sums of blocks need registers, too.
  static constexpr int columns(int of_rows) { return of_rows <= 2 ? 4 : std::max(5 - (of_rows + 1) / 2, 1); }

  template <int rows, int columns> [[gnu::always_inline]] static void multiply(const SkinnyArgs& x,
                                                                               const BlockByte<dtype>* b, float* c,
                                                                               Index prefetch_distance) {
    constexpr Index block = dtype_info(dtype).block, scale_bytes = dtype_info(dtype).scale_bits / 8;
    const Index units = x.k / Dots::per_unit;
    Register sums[rows][columns];
    const auto for_each_sum = [](auto f) __attribute__((always_inline)) {
#pragma GCC unroll 8
      for (int i = 0; i < rows; ++i)
#pragma GCC unroll 4
        for (int j = 0; j < columns; ++j) f(i, j);
    };
    for_each_sum([&](int i, int j) { sums[i][j] = V::zero(); });
    for (Index k = 0; k < x.k; k += block) {
      Register block_sums[rows][columns];
      for_each_sum([&](int i, int j) { block_sums[i][j] = V::zero(); });
      const std::uint8_t* at[columns];
#pragma GCC unroll 4
      for (int j = 0; j < columns; ++j) {
        at[j] = &advance_along_k(b + j * x.b_stride, k)->byte;
        __builtin_prefetch(at[j] + prefetch_distance, 0, 2);
      }
#pragma GCC unroll 4
      for (Index step = 0; step < block; step += 16 * Dots::per_unit) {
        Register right[columns];
#pragma GCC unroll 4
        for (int j = 0; j < columns; ++j)
          right[j] = __builtin_bit_cast(
              Register, look_up_codes(at[j] + scale_bytes + step / 2, load_integer_words<dtype>(at[j])));
#pragma GCC unroll 8
        for (int i = 0; i < rows; ++i) {
          Register l = V::load(x.a_by_rows + i * units + (k + step) / Dots::per_unit);
          asm("" : "+v"(l));  // one load instead of one per column
#pragma GCC unroll 4
          for (int j = 0; j < columns; ++j) block_sums[i][j] = V::multiply_add(block_sums[i][j], l, right[j]);
        }
      }
#pragma GCC unroll 4
      for (int j = 0; j < columns; ++j) {
        const __m512 scale = broadcast_f16_scale(at[j]);
#pragma GCC unroll 8
        for (int i = 0; i < rows; ++i) sums[i][j] = _mm512_fmadd_ps(block_sums[i][j], scale, sums[i][j]);
      }
    }
    Dots::store_sums(x, units, sums, c);
  }
};

void multiply_skinny_scaled(const SkinnyArgs& x) {
  switch (x.b_dtype) {
    case DType::int4_32: return multiply_skinny_along_k<IntegerBlockDots<DType::int4_32>>(x);
    case DType::int4_64: return multiply_skinny_along_k<IntegerBlockDots<DType::int4_64>>(x);
    case DType::int4_128: return multiply_skinny_along_k<IntegerBlockDots<DType::int4_128>>(x);
    case DType::u4_32: return multiply_skinny_along_k<IntegerBlockDots<DType::u4_32>>(x);
    case DType::u4_64: return multiply_skinny_along_k<IntegerBlockDots<DType::u4_64>>(x);
    case DType::u4_128: return multiply_skinny_along_k<IntegerBlockDots<DType::u4_128>>(x);
    case DType::mxfp8: return multiply_skinny_along_k<Dots16<V, Bf16, BlockByte<DType::mxfp8>>>(x);
    case DType::mxfp4: return multiply_skinny_along_k<Dots16<V, Bf16, BlockByte<DType::mxfp4>>>(x);
    default: return multiply_skinny_along_k<Dots16<V, Bf16, BlockByte<DType::nvfp4>>>(x);
  }
}

// With few rows, widening int8 of B is the limit: to f32 it takes two instructions for 16 elements, to bf16 pairs five
// for 32, and some cores multiply pairs at half the rate (Emerald Rapids).
const Engine* f32_widening_engine() { return avx512_engine(DType::bf16, DType::int8); }

template <class A, class B> constexpr Engine pair_engines{
    .rows = 14,
    .cols = 32,
    .per_unit = 2,
    .left_in_place = sizeof(A) == 2,
    .rounds_to_bf16 = true,
    .indexes_right = sizeof(B) == 2,
    .multiply_block = dispatch_block<V, 14, sizeof(A) == 2>,
    .left_packers = packers_avx512<Bf16Tag, A, Bf16>,
    .right_packers = packers_avx512<Bf16Tag, B, Bf16>,
    .skinny_along_k = multiply_skinny_along_k<Dots16<V, Bf16, B>>,
    .skinny_across_k = multiply_skinny_across_k<V, Bf16, B>,
    .skinny_scaled = sizeof(A) == 2 && sizeof(B) == 2 ? multiply_skinny_scaled : nullptr,
    .few_rows_engine = sizeof(B) == 1 ? f32_widening_engine : nullptr,
};
constexpr Engine int8_engine{
    .rows = 14,
    .cols = 32,
    .per_unit = 4,
    .left_tail = QuadVectors::left_tail,
    .multiply_block = dispatch_block<QuadVectors, 14, false>,
    .left_packers = packers_avx512<Bf16Tag, std::int8_t, std::int8_t, QuadVectors::left_tail>,
    .right_packers = packers_avx512<Bf16Tag, std::int8_t, std::uint8_t>,
    .skinny_along_k = multiply_skinny_along_k<Dots16<QuadVectors, std::uint8_t, std::int8_t>>,
    .skinny_across_k = multiply_skinny_across_k<QuadVectors, std::uint8_t, std::int8_t>,
    .max_skinny_along_k_rows = 2 * max_skinny_rows,
};
// bf16 with blocks of int4 or u4, which are multiplied in f32; only these products have operands of bf16 and f32. Few
// rows read the blocks (`skinny_scaled`) and need no copy of B.
const Engine* integer_blocks_engine() {
  static const Engine engine = [] {
    Engine e = *avx512_engine(DType::bf16, DType::f32);
    e.few_rows_engine = [] { return avx512_bf16_engine(DType::bf16, DType::bf16); };
    e.few_row_limits.along_k = max_skinny_rows_scaled;
    return e;
  }();
  return &engine;
}
}  // namespace

const Engine* avx512_bf16_engine(DType a, DType b) {
  if (a == DType::bf16 && b == DType::f32) return integer_blocks_engine();
  if (a == DType::bf16 && b == DType::bf16) return &pair_engines<Bf16, Bf16>;
  if (a == DType::bf16 && b == DType::int8) return &pair_engines<Bf16, std::int8_t>;
  if (a == DType::int8 && b == DType::bf16) return &pair_engines<std::int8_t, Bf16>;
  if (a == DType::int8 && b == DType::int8) return &int8_engine;
  return nullptr;
}

#else
const Engine* avx512_bf16_engine(DType, DType) { return nullptr; }
#endif

}  // namespace ridge::tile::cpu
