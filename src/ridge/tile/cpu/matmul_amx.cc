// AMX engines: 32 x 32 sums in four tiles, bf16 as pairs along k and int8 as quads (tiles.h). Products with too few
// rows for a tile use the AVX-512, AVX512_BF16 or VNNI engine for the same formats.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // g++ 12 warns about its own _mm512_undefined_*
#pragma GCC diagnostic ignored "-Wuninitialized"
#include "ridge/tile/cpu/tiles_skinny.h"
#if defined(__AVX512BF16__)
#include <array>

#include "ridge/tile/cpu/pack_amx.h"
#include "ridge/tile/cpu/vectors_avx512.h"
#endif

namespace ridge::tile::cpu {

#if defined(__AVX512BF16__)
namespace {
struct AmxTag {};

// Inline assembly, because the intrinsics take literals, not template constants. The compiler does not know the tiles,
// so volatile keeps the instructions in order, and data for tiles is written before the tiles are configured.
struct AmxTiles {
  static constexpr int lanes = 16;
  [[gnu::always_inline]] static void configure(const TileShapes& s) {
    asm volatile("ldtilecfg %0" : : "m"(s) : "memory");
  }
  [[gnu::always_inline]] static void release() { asm volatile("tilerelease"); }
  template <int t> [[gnu::always_inline]] static void zero() { asm volatile("tilezero %%tmm%c0" : : "i"(t)); }
  template <int t> [[gnu::always_inline]] static void load(const void* p, Index stride) {
    asm volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(p), "r"(stride), "i"(t));
  }
  template <int t> [[gnu::always_inline]] static void store(void* p, Index stride) {
    asm volatile("tilestored %%tmm%c2, (%0,%1,1)" : : "r"(p), "r"(stride), "i"(t) : "memory");
  }
  // Loads with a hint to bypass the L1, for data in the L2 without early reuse: 75 cycles a step instead of 85.
  template <int t> [[gnu::always_inline]] static void load_past_l1(const void* p, Index stride) {
    asm volatile("tileloaddt1 (%0,%1,1), %%tmm%c2" : : "r"(p), "r"(stride), "i"(t));
  }
  [[gnu::always_inline]] static void order_stores() {
    asm volatile("" : : : "memory");
  }  // keeps the compiler from moving stores after tile loads
  [[gnu::always_inline]] static void stream_row(Unit* to, const Unit* from) {
    _mm512_stream_si512(reinterpret_cast<__m512i*>(to), _mm512_load_si512(from));
    _mm512_stream_si512(reinterpret_cast<__m512i*>(to + 16), _mm512_load_si512(from + 16));
  }
};

// Stores `rows` rows of C from a tile of 16 x 16 whose rows are the columns of C.
template <class V>
void store_transposed_tile(const Unit* tile, typename V::Sum* c, Index c_stride, std::array<int, 2> sizes, bool add) {
  const auto [rows, cols] = sizes;
  __m512i r[16];
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) r[i] = _mm512_load_si512(tile + 16 * i);
  transpose_16x16<AmxTag>(r);
  alignas(64) Unit transposed_rows[16][16];
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) _mm512_store_si512(transposed_rows[i], r[i]);
  const auto in = V::part(cols);
  for (int i = 0; i < rows; ++i, c += c_stride) {
    const auto sums = V::load(transposed_rows[i]);
    V::sum_store_part(c, add ? V::sum_add(sums, V::sum_load_part(c, in)) : sums, in);
  }
}

struct PairTiles : AmxTiles {
  template <int c, int a, int b> [[gnu::always_inline]] static void add_product() {
    asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(c), "i"(a), "i"(b));
  }
  static void store_transposed(const Unit* tile, Unit* c, Index c_stride, int rows, int cols, bool add) {
    store_transposed_tile<FloatVectors512<AmxTag>>(tile, reinterpret_cast<float*>(c), c_stride, {rows, cols}, add);
  }
};

struct QuadTiles : AmxTiles {  // quads of int8, sums in int32
  template <int c, int a, int b> [[gnu::always_inline]] static void add_product() {
    asm volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(c), "i"(a), "i"(b));
  }
  static void store_transposed(const Unit* tile, Unit* c, Index c_stride, int rows, int cols, bool add) {
    store_transposed_tile<IntVectors512<AmxTag>>(tile, c, c_stride, {rows, cols}, add);
  }
};

// Returns an engine whose tiles have elements of type W. If B has type W, products with few rows read B in place.
template <class T, class W, class A, class B> constexpr Engine tile_engine() {
  Engine e{
      .rows = 32,
      .cols = 32,
      .per_unit = elements_per_unit<W>,
      .step_multiple = 16,
      .row_multiple = 16,
      .k_multiple = 16 * elements_per_unit<W>,
      .left_in_place = sizeof(A) == sizeof(W),
      .multiply_block = multiply_tile_block<T>,
      .release_tiles = T::release,
      .left_packers = left_packers_amx<AmxTag, A, W>,
      .right_packers = right_packers_amx<AmxTag, B, W>,
  };
  if constexpr (sizeof(B) == sizeof(W)) {
    e.skinny_along_k = tile_skinny_along_k<T, W>;
    e.skinny_left_packers = right_packers_amx<AmxTag, A, W>;
    e.max_skinny_along_k_rows = max_skinny_tile_rows;
  }
  return e;
}

// Returns the vector engine for products of very few rows. bf16 is widened to f32, because f32 multiply-adds start
// twice as often as multiply-adds of bf16 pairs.
template <DType a, DType b> const Engine* vector_engine() {
  return (a == DType::int8 && b == DType::int8 ? avx512_bf16_engine : avx512_engine)(a, b);
}

template <class T, class W, class A, class B>
constexpr Engine tile_engine_with_few_rows(const Engine* (*few_rows)(), FewRowLimits limits) {
  Engine e = tile_engine<T, W, A, B>();
  e.few_rows_engine = few_rows;
  e.few_row_limits = limits;
  return e;
}
using I8 = std::int8_t;
constexpr Engine pair_engine =
    tile_engine_with_few_rows<PairTiles, Bf16, Bf16, Bf16>(vector_engine<DType::bf16, DType::bf16>, {4, 8, 4});
constexpr Engine widened_right_engine =
    tile_engine_with_few_rows<PairTiles, Bf16, Bf16, I8>(vector_engine<DType::bf16, DType::int8>, {8, 8, 8});
constexpr Engine widened_left_engine =
    tile_engine_with_few_rows<PairTiles, Bf16, I8, Bf16>(vector_engine<DType::int8, DType::bf16>, {4, 8, 4});
constexpr Engine quad_engine =
    tile_engine_with_few_rows<QuadTiles, I8, I8, I8>(vector_engine<DType::int8, DType::int8>, {2, 8, 8});
}  // namespace

const Engine* amx_engine(DType a, DType b) {
  if (a == DType::bf16 && b == DType::bf16) return &pair_engine;
  if (a == DType::bf16 && b == DType::int8) return &widened_right_engine;
  if (a == DType::int8 && b == DType::bf16) return &widened_left_engine;
  if (a == DType::int8 && b == DType::int8) return &quad_engine;
  return nullptr;
}
#else
const Engine* amx_engine(DType, DType) { return nullptr; }
#endif

}  // namespace ridge::tile::cpu
