// What one instruction set brings: a block of the product in registers, and the packing that feeds it. Everything is
// counted in units: 4 bytes of one row of A or one column of B along k, an f32, two bf16 or int16, or four int8. A
// packed panel is [steps][width] units (a left one what its engine likes), so that the register block walks through
// memory in a straight line. Machine code for an instruction set lives in one file each, whose name's end sets the
// compiler's flags, and is reached through the pointers here: nothing that is compiled twice can be linked once.
#pragma once

#include <cstdint>

#include "ridge/base/float16.h"
#include "ridge/tile/tile.h"

namespace ridge::tile::cpu {

using Unit = std::int32_t;
struct Cpu;  // pool/isa.h

// Addresses of a later stage, fetched to the L2 while this one is multiplied: one (A) or two (B) cache lines for every
// four steps of k. Line s is at base + (s mod (mask + 1)) * stride + ((s & ~mask) << shift), where s starts
// at `from`.
struct Prefetch {
  static constexpr Index straight = 16;  // lines that a walk does without these words: mask + 1 and from are multiples
  const char* base = nullptr;
  Index stride = 0;
  Index mask = 0;  // 2^n - 1
  int shift = 0;   // (s & ~mask) << shift is the second addend
  Index from = 0;
  Index panel = 0;  // bytes: what each further panel of columns adds to the base (B)
  Index bytes = 0;  // packed A: how many there are to fetch
};

// C[rows][cols] (+)= A[rows][steps] * B[steps][cols]; rows and cols at most the engine's block.
struct Block {
  const Unit* a = nullptr;
  Index a_stride = 0;  // units from row to row where A is not packed; packed: as Engine::left does, [steps][rows]
  const Unit* b = nullptr;
  Index b_stride = 0;  // units from step to step
  Index steps = 0;
  void* c = nullptr;  // float or int32
  Index c_stride = 0;
  int rows = 0, cols = 0;
  int panels = 1;         // such blocks side by side, with whole vectors of columns
  Index panel_units = 0;  // of B from panel to panel
  Unit* keep = nullptr;   // where B, read in place, is left as packed panels, [steps][cols]; null: nowhere
  Index keep_units = 0;   // … from panel to panel
  bool packed = false;    // A
  bool add = false;       // to what C holds; false: overwrite
  bool stream = false;    // C goes past the caches: whole aligned lines that nobody reads soon
  Prefetch prefetch_a, prefetch_b;
  int* shape = nullptr;  // what tiles stay configured for from block to block (0: nothing); null: for this block alone
};

// out[steps][width] from `lanes` <= width vectors of k elements each; missing lanes and the rest of the last unit are
// 0.
struct Packing {
  const void* source = nullptr;
  Index stride = 0;  // elements between lanes (along), or between steps of k (across)
  int lanes = 0, width = 0;
  Index k = 0;
  Unit* out = nullptr;
};

struct Packers {                             // of one operand's format into the engine's units
  void (*along)(const Packing&) = nullptr;   // k is contiguous
  void (*across)(const Packing&) = nullptr;  // lanes are contiguous
};

// C[rows][n] (+)= A * B for few rows and any n and k, B read in place.
struct Strip {
  const Unit* a = nullptr;       // packed, [steps][rows]: where B's columns are contiguous
  const Unit* a_rows = nullptr;  // where k is: [stretches][rows][units of that stretch], or what thin_left packs
  const void* b = nullptr;
  Index b_stride = 0;  // elements from row of k to row of k, or from column to column
  Index b_panel = 0;   // where columns are contiguous: from as many as a packed panel has to the next
  Index k = 0, n = 0;
  int rows = 0;
  void* c = nullptr;
  Index c_stride = 0;
  void* sums = nullptr;  // room for [n in whole panels][rows] of them, if Engine::room_for_sums
  bool add = false;
  bool in_l2 = false;  // B is in the L2
};
inline constexpr int most_thin_rows = 8;           // in one pass over B
inline constexpr int most_thin_rows_across = 16;   // where B's columns are contiguous: two passes
inline constexpr int most_thin_rows_along = 40;    // where k is: further passes find B in the L2
inline constexpr int rows_of_a_group = 64;         // of tiles, in one pass over B where k is contiguous
inline constexpr int most_thin_rows_widened = 16;  // where each of them must widen B again
// Units of k in one stretch: the rows of a pass then take half of an L1 of 32 KiB. They are packed side by side, since
// rows of a power of two would lie in the same set of the cache.
constexpr Index thin_depth(Index rows) {
  const Index passes = (rows + most_thin_rows - 1) / most_thin_rows, each = (rows + passes - 1) / passes;
  return 4096 / each / 32 * 32;
}

// Elements of k in one stretch of weights that tiles take as they lie: the rows of A, in tiles of 16, take a quarter of
// an L2 of 2 MiB. What goes in several is added up stretch by stretch.
constexpr Index tile_stretch(Index rows, Index per_unit) {
  return (Index{1} << 17) / ((rows + 15) / 16) / 16 / 16 * 16 * per_unit;
}

// So many rows are few: where k is contiguous in B, where its columns are, and where those take at most half of the L2.
struct FewRows {
  int along = most_thin_rows, across = most_thin_rows, in_l2 = most_thin_rows;
};

struct Engine {
  int rows = 0, cols = 0;  // of the register block
  int per_unit = 0;        // elements of k
  int tile_steps = 1;      // packed stages are so many steps long, or a multiple: zeros fill the last
  int row_grain = 1;       // rows are cut at multiples of so many
  int k_grain = 32;        // k is cut at multiples of so many elements
  // Units that follow each row's part of a stage (of a stretch, where thin_along reads them) in packed A: a whole line,
  // so that rows stay on lines, or none. A panel's, all rows' together, begin with what the sums of its rows start
  // from.
  int left_tail = 0;
  bool direct_left = false;   // a unit is what lies in memory where k is contiguous: A may be read in place, where k
                              // is whole units and whole tile_steps
  bool direct_right = false;  // a unit is one element as stored: B may, where columns are contiguous
  bool keeps_right = false;   // … and the block can leave it packed
  void (*block)(const Block&) = nullptr;
  void (*release)() = nullptr;  // of tiles that blocks with a Block::shape left configured
  Packers left, right;
  void (*thin_along)(const Strip&) = nullptr;  // null: thin products take the way of all others
  void (*thin_across)(const Strip&) = nullptr;
  void (*thin_packed)(const Strip&) = nullptr;  // … and B packed; null: packed weights take the way of all others
  bool room_for_sums = false;  // these two keep sums in room of their own until they are done; false: in C
  int few_stretch = 0;  // units of k in a stretch of Strip::a_rows of most_thin_rows; 0, or more rows: thin_depth(rows)
  Packers thin_left{};  // Strip::a_rows is one panel of whole row_grains that these pack; null: stretches, by `left`
  int most_thin_along = 0;  // rows that thin_along takes; 0: most_thin_rows_along, or _widened
  // Another engine, for products of few rows whose B is read in place; null: this one.
  const Engine* (*for_few)() = nullptr;
  FewRows few{};
};

// Units of k in memory that this engine packed.
constexpr Index units_of(const Engine& e, Index k) {
  const Index elements = e.per_unit * e.tile_steps;
  return (k + elements - 1) / elements * e.tile_steps;
}

// The engine that multiplies these operands on a CPU; null where there is none. Its numbers are there for any CPU, its
// functions may be called only on one that has the instruction set. prepacked: B is packed once for many products, and
// then not wider than it is stored where that can be had.
const Engine* engine(DType a, DType b, const Cpu& cpu, bool prepacked = false);
const Engine* engine(DType a, DType b);  // … on this one, as its kernels run now

// Of an instruction set's engines in f32, Pair<A, B>::engine for each two formats that are widened as they are packed.
template <template <class, class> class Pair> const Engine* widening_engine(DType a, DType b) {
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

// Looking one up takes no instruction of the set: engines are constants.
const Engine* plain_engine(DType a, DType b);
const Engine* avx2_engine(DType a, DType b);
const Engine* avx512_engine(DType a, DType b);
const Engine* avx512_bf16_engine(DType a, DType b);
const Engine* avx512_wide_bf16_engine(DType a, DType b);  // where pairs of bf16 are slow: see multiplies_pairs
const Engine* amx_engine(DType a, DType b);

}  // namespace ridge::tile::cpu
