// The matmul engine of one instruction set: a function that multiplies a block of the product in registers (the
// register block) and the packing functions for its operands. Sizes are in units: a unit is 4 bytes of one row of A or
// one column of B along k: one f32, two bf16 or int16, or four int8. A packed panel is [steps][width] units (a left
// panel as its engine defines), so that the register block reads memory sequentially. "Along k" means that k is
// contiguous in memory, "across k" that rows of A or columns of B are. Each instruction set has its own file, whose
// suffix sets the compiler flags, and is reached through the pointers here, so that the linker cannot merge code
// compiled for different instruction sets.
#pragma once

#include <cstdint>

#include "ridge/base/float16.h"
#include "ridge/tile/tile.h"

namespace ridge {
namespace pool {
struct Cpu;  // defined in pool/isa.h
}
}  // namespace ridge

namespace ridge::tile::cpu {

using Unit = std::int32_t;

// Addresses of a later stage to prefetch into the L2 while this stage is multiplied: one (A) or two (B) cache lines per
// four steps of k. Line s is at base + (s mod (mask + 1)) * stride + ((s & ~mask) << shift), s >=
// `first_line`.
struct PrefetchPlan {
  static constexpr Index linear_steps = 16;  // lines at a constant stride; divides mask + 1 and first_line
  const char* base = nullptr;
  Index stride = 0;
  Index mask = 0;  // see above; 2^n - 1
  int shift = 0;   // see above
  Index first_line = 0;
  Index panel_bytes = 0;   // distance between the bases of consecutive panels of columns (B)
  Index packed_bytes = 0;  // size of the packed A to prefetch
};

// Arguments of the register block: C[rows][cols] (+)= A[rows][steps] * B[steps][cols], at most Engine::rows x cols.
struct BlockArgs {
  const Unit* a = nullptr;
  Index a_stride = 0;  // units between rows of an unpacked A; packed A is [steps][rows]
  const Unit* b = nullptr;
  Index b_stride = 0;                // units between steps
  const Index* b_offsets = nullptr;  // if not null, step s of B is at b + b_offsets[s], and `b_stride` is unused
  Index steps = 0;
  void* c = nullptr;  // float or int32
  Index c_stride = 0;
  Bf16* rounded = nullptr;  // if not null, the complete sums are rounded and stored here; C is not written
  Index rounded_stride = 0;
  int rows = 0, cols = 0;
  int panels = 1;               // number of adjacent panels of B to multiply; more than one needs full vectors
  Index panel_stride = 0;       // distance between panels of B
  Unit* packed_out = nullptr;   // if not null, B is also packed to this buffer, as panels [steps][cols]
  Index packed_out_stride = 0;  // units between panels of packed_out
  bool left_packed = false;     // true if A is packed
  bool accumulate = false;      // true if the product is added to C, false if C is overwritten
  bool non_temporal = false;    // true if C is stored non-temporally, in full aligned lines
  PrefetchPlan prefetch_a, prefetch_b;
  int* tile_shape = nullptr;  // tile configuration that stays loaded between blocks (0: none), or null
};

// Arguments of packing: packs `lanes` <= width rows (or columns) of k elements to out[steps][width]. Missing lanes and
// the rest of the last unit become 0.
struct PackArgs {
  const void* source = nullptr;
  Index stride = 0;  // elements between lanes (along k) or between elements of k (across k)
  int lanes = 0, width = 0;
  Index k = 0;
  Unit* out = nullptr;
};

// Arguments of a small product of f32: C[m][n] = A * B. A is read in place, and a B along k is packed.
struct SmallArgs {
  const Unit *a = nullptr, *b = nullptr;
  Index a_stride = 0, b_stride = 0;  // units between rows of A or columns of B along k, else between elements of k
  bool a_along_k = false, b_along_k = false;
  Index m = 0, n = 0, k = 0;
  float* c = nullptr;
  Index c_stride = 0;
};
inline constexpr Index max_small_size = 128;    // Largest k of a packed B, and m of transposed columns
inline constexpr Index max_narrow_columns = 8;  // Columns of a small product that are computed transposed

// Arguments of copying the transpose of up to max_narrow_columns rows of `columns` sums to C[columns][rows].
struct TransposeArgs {
  const float* sums = nullptr;
  Index stride = 0;
  int rows = 0;
  Index columns = 0;
  float* c = nullptr;
  Index c_stride = 0;
};

struct Packers {                                // functions that pack one operand format into units
  void (*along_k)(const PackArgs&) = nullptr;   // k is contiguous
  void (*across_k)(const PackArgs&) = nullptr;  // lanes are contiguous
};

// Arguments of a product with few rows: C[rows][n] (+)= A * B for any n and k; B is read in place or prepacked.
struct SkinnyArgs {
  const Unit* a = nullptr;          // packed [steps][rows], if B is across k
  const Unit* a_by_rows = nullptr;  // if B is along k: [k blocks][rows][units], or as skinny_left_packers pack
  const void* b = nullptr;
  Index b_stride = 0;        // elements between rows of k, or between columns
  Index b_panel_stride = 0;  // if B is across k: elements between consecutive panels of columns
  Index k = 0, n = 0;
  int rows = 0;
  void* c = nullptr;
  Index c_stride = 0;
  void* scratch_sums = nullptr;  // [n rounded up to panels][rows], if Engine::needs_sum_scratch
  bool accumulate = false;
  bool b_in_l2 = false;        // true if B fits in the L2
  DType b_dtype = DType::f32;  // format of B for skinny_scaled, else unused
};
inline constexpr int max_skinny_rows = 8;            // limit of rows in one pass over B
inline constexpr int max_skinny_rows_across_k = 16;  // limit of two passes over B
inline constexpr int max_skinny_rows_along_k = 40;   // limit of several passes; later ones find B in L2
inline constexpr int max_skinny_rows_scaled = 16;    // limit if each pass must decode blocks with scales again
inline constexpr int rows_per_tile_group = 64;       // limit of rows of A in one pass of AMX tiles over B along k
inline constexpr int max_skinny_rows_widened = 16;   // limit if each pass must widen B again
// Returns the number of units in a k block: the rows of a pass then take half of an L1 of 32 KiB. Rows are packed
// without gaps, because a power-of-two stride would map all rows to the same cache set. Pairs of a k block fill whole
// blocks with a scale, of 128 elements at most.
constexpr Index skinny_k_block_units(Index rows) {
  const Index passes = (rows + max_skinny_rows - 1) / max_skinny_rows, each = (rows + passes - 1) / passes;
  return 4096 / each / 64 * 64;
}

// Returns the elements of k in one k block of weights that AMX tiles load in place: the rows of A, in tiles of 16, then
// take a quarter of an L2 of 2 MiB. The k blocks are accumulated one after the other.
constexpr Index tile_k_block_elements(Index rows, Index per_unit) {
  return (Index{1} << 17) / ((rows + 15) / 16) / 16 / 16 * 16 * per_unit;
}

// Largest number of rows for `few_rows_engine`: for B along k, for B across k, and for B across k in half of the L2.
struct FewRowLimits {
  int along_k = max_skinny_rows, across_k = max_skinny_rows, in_l2 = max_skinny_rows;
};

struct Engine {
  int rows = 0, cols = 0;  // size of the register block
  int per_unit = 0;        // elements of k in a unit
  int step_multiple = 1;   // packed stages are padded with zeros to a multiple of this number of steps
  int row_multiple = 1;    // rows of A are split at multiples of this number
  int k_multiple = 32;     // k is split at multiples of this number of elements
  // Number of units appended to each row of a stage (or k block) of packed A: 0, or a cache line so that rows stay
  // aligned. In a panel the tails of all rows are together and begin with the initial values of the rows' sums.
  int left_tail = 0;
  bool left_in_place = false;      // A along k can be read in place if k is a multiple of per_unit * step_multiple
  bool right_in_place = false;     // true if B across k can be read in place, because a unit is one element
  bool rounds_to_bf16 = false;     // true if the register block stores rounded sums (BlockArgs::rounded)
  bool indexes_right = false;      // true if the register block can read B by offsets (BlockArgs::b_offsets)
  bool block_packs_right = false;  // true if the register block can pack B while reading B in place
  void (*multiply_block)(const BlockArgs&) = nullptr;
  void (*multiply_small)(const SmallArgs&) = nullptr;      // for f32; Is null if no function takes small products
  void (*transpose_sums)(const TransposeArgs&) = nullptr;  // for `multiply_small`
  void (*release_tiles)() = nullptr;  // releases AMX tiles that stay configured (BlockArgs::tile_shape)
  Packers left_packers, right_packers;
  void (*skinny_along_k)(const SkinnyArgs&) = nullptr;  // Is null if no function takes few rows
  void (*skinny_across_k)(const SkinnyArgs&) = nullptr;
  // Takes B along k in blocks of 16 to 128 elements with a scale, and decodes them in registers. `b_stride` is in
  // bytes, and `b_dtype` is the format of B. Is null if no function does that.
  void (*skinny_scaled)(const SkinnyArgs&) = nullptr;
  void (*skinny_packed)(const SkinnyArgs&) = nullptr;  // for packed B; Is null if no function takes few rows
  bool needs_sum_scratch = false;   // true if skinny_across_k and skinny_packed keep sums in scratch, not in C
  int few_rows_k_block_units = 0;   // k block of a_by_rows for max_skinny_rows or fewer; 0: skinny_k_block_units()
  Packers skinny_left_packers{};    // pack a_by_rows as one panel; if null, left_packers pack k blocks
  int max_skinny_along_k_rows = 0;  // row limit; 0: max_skinny_rows_along_k or _widened
  // Returns the engine for products of few rows with B in place; if null, this engine is used.
  const Engine* (*few_rows_engine)() = nullptr;
  FewRowLimits few_row_limits{};
};

// Returns the units that k elements take in memory packed by this engine.
constexpr Index packed_units(const Engine& e, Index k) {
  const Index elements = e.per_unit * e.step_multiple;
  return (k + elements - 1) / elements * e.step_multiple;
}

// Returns the engine for operands of formats a and b on a CPU, or null. The engine's functions need a CPU with the
// instruction set. `prepacked` is true if B is packed once for many products; then engines that do not widen B are
// preferred.
const Engine* find_engine(DType a, DType b, const pool::Cpu& cpu, bool prepacked = false);
const Engine* find_engine(DType a, DType b);  // for this_cpu()

// Returns Pair<A, B>::engine for formats a and b, which are widened to f32 while they are packed, or null.
template <template <class, class> class Pair> const Engine* find_widening_engine(DType a, DType b) {
  const auto with_left = [b]<class A>() -> const Engine* {
    switch (b) {
      case DType::f32: return &Pair<A, float>::engine;
      case DType::bf16: return &Pair<A, Bf16>::engine;
      case DType::f16: return &Pair<A, F16>::engine;
      case DType::int8: return &Pair<A, std::int8_t>::engine;
      default: return nullptr;
    }
  };
  switch (a) {
    case DType::f32: return with_left.template operator()<float>();
    case DType::bf16: return with_left.template operator()<Bf16>();
    case DType::f16: return with_left.template operator()<F16>();
    case DType::int8: return with_left.template operator()<std::int8_t>();
    default: return nullptr;
  }
}

// Return the engine of an instruction set, or null. They can be called on any CPU, because engines are constants.
const Engine* plain_engine(DType a, DType b);
const Engine* avx2_engine(DType a, DType b);
const Engine* avx512_engine(DType a, DType b);
const Engine* avx512_bf16_engine(DType a, DType b);
const Engine* avx512_widened_bf16_engine(DType a, DType b);  // for CPUs with slow bf16 pairs
const Engine* amx_engine(DType a, DType b);

}  // namespace ridge::tile::cpu
