// AMX engines: 32 x 32 sums in four tiles, bf16 as pairs along k and int8 as quads (tiles.h). Products with too few
// rows for a tile use the AVX-512, AVX512_BF16 or VNNI engine for the same formats.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // g++ 12 warns about its own _mm512_undefined_*
#pragma GCC diagnostic ignored "-Wuninitialized"
#include "ridge/tile/cpu/tiles_thin.h"
#if defined(__AVX512BF16__)
#include <array>

#include "ridge/tile/cpu/pack_amx.h"
#include "ridge/tile/cpu/vectors_avx512.h"
#endif

namespace ridge::tile::cpu {

#if defined(__AVX512BF16__)
namespace {
struct Here {};

// Uses inline assembly because the intrinsics take literals, not template constants. The compiler does not know the
// tiles; volatile keeps the instructions in order, and data for the tiles is written before they are configured.
struct Tiles {
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
  template <int t> [[gnu::always_inline]] static void load_once(const void* p, Index stride) {
    asm volatile("tileloaddt1 (%0,%1,1), %%tmm%c2" : : "r"(p), "r"(stride), "i"(t));
  }
  [[gnu::always_inline]] static void settle() { asm volatile("" : : : "memory"); }  // orders stores before loads
  [[gnu::always_inline]] static void stream(Unit* to, const Unit* from) {
    _mm512_stream_si512(reinterpret_cast<__m512i*>(to), _mm512_load_si512(from));
    _mm512_stream_si512(reinterpret_cast<__m512i*>(to + 16), _mm512_load_si512(from + 16));
  }
};

// Stores `rows` rows of C from a tile of 16 x 16 whose rows are the columns of C.
template <class V>
void turn_tile(const Unit* tile, typename V::Sum* c, Index c_stride, std::array<int, 2> sizes, bool add) {
  const auto [rows, cols] = sizes;
  __m512i r[16];
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) r[i] = _mm512_load_si512(tile + 16 * i);
  transpose16<Here>(r);
  alignas(64) Unit turned[16][16];
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) _mm512_store_si512(turned[i], r[i]);
  const auto in = V::part(cols);
  for (int i = 0; i < rows; ++i, c += c_stride) {
    const auto sums = V::load(turned[i]);
    V::sum_store_part(c, add ? V::sum_add(sums, V::sum_load_part(c, in)) : sums, in);
  }
}

struct Pairs : Tiles {
  template <int c, int a, int b> [[gnu::always_inline]] static void dot() {
    asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(c), "i"(a), "i"(b));
  }
  static void turn(const Unit* tile, Unit* c, Index c_stride, int rows, int cols, bool add) {
    turn_tile<FloatVectors512<Here>>(tile, reinterpret_cast<float*>(c), c_stride, {rows, cols}, add);
  }
};

struct Quads : Tiles {  // quads of int8, sums in int32
  template <int c, int a, int b> [[gnu::always_inline]] static void dot() {
    asm volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(c), "i"(a), "i"(b));
  }
  static void turn(const Unit* tile, Unit* c, Index c_stride, int rows, int cols, bool add) {
    turn_tile<IntVectors512<Here>>(tile, c, c_stride, {rows, cols}, add);
  }
};

// W: element type in the tiles. If B has that type, products with few rows of A read B in place.
template <class T, class W, class A, class B> constexpr Engine tiles_of() {
  Engine e{
      .rows = 32,
      .cols = 32,
      .per_unit = in_unit<W>,
      .tile_steps = 16,
      .row_grain = 16,
      .k_grain = 16 * in_unit<W>,
      .direct_left = sizeof(A) == sizeof(W),
      .block = tile_block<T>,
      .release = T::release,
      .left = left_packers_amx<Here, A, W>,
      .right = right_packers_amx<Here, B, W>,
  };
  if constexpr (sizeof(B) == sizeof(W)) {
    e.thin_along = tile_thin_along<T, W>;
    e.thin_left = right_packers_amx<Here, A, W>;
    e.most_thin_along = most_rows_of_tiles;
  }
  return e;
}

// Returns the vector engine for products of very few rows: bf16 in f32, because f32 multiply-adds start twice as often
// as those of bf16 pairs.
template <DType a, DType b> const Engine* smaller() {
  return (a == DType::int8 && b == DType::int8 ? avx512_bf16_engine : avx512_engine)(a, b);
}

template <class T, class W, class A, class B> constexpr Engine with_few(const Engine* (*few)(), FewRows rows) {
  Engine e = tiles_of<T, W, A, B>();
  e.for_few = few;
  e.few = rows;
  return e;
}
using I8 = std::int8_t;
constexpr Engine of_pairs = with_few<Pairs, Bf16, Bf16, Bf16>(smaller<DType::bf16, DType::bf16>, {4, 8, 4});
constexpr Engine widened_right = with_few<Pairs, Bf16, Bf16, I8>(smaller<DType::bf16, DType::int8>, {8, 8, 8});
constexpr Engine widened_left = with_few<Pairs, Bf16, I8, Bf16>(smaller<DType::int8, DType::bf16>, {4, 8, 4});
constexpr Engine of_quads = with_few<Quads, I8, I8, I8>(smaller<DType::int8, DType::int8>, {2, 8, 8});
}  // namespace

const Engine* amx_engine(DType a, DType b) {
  if (a == DType::bf16 && b == DType::bf16) return &of_pairs;
  if (a == DType::bf16 && b == DType::int8) return &widened_right;
  if (a == DType::int8 && b == DType::bf16) return &widened_left;
  if (a == DType::int8 && b == DType::int8) return &of_quads;
  return nullptr;
}
#else
const Engine* amx_engine(DType, DType) { return nullptr; }
#endif

}  // namespace ridge::tile::cpu
