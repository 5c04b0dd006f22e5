// How a product is cut up at run time. Rows come in groups (a group of A is packed once and bounds the memory), groups
// in row blocks, columns in column blocks, k in stages. A work item is (row block, column block); a stage of k is
// finished for all row blocks of a group before the next begins, so that one packed stage of B serves them all. Sizes
// follow from the caches: with 32 KiB of L1 and 1 MiB of L2, a panel of A of 14 x 384 f32 takes 21 KiB and a stage of B
// of 384 x 256 takes 384 KiB. Nothing here depends on the number of threads but the cuts of m and n, which change no
// sum's order. All follows from the arguments: the schedule of an AVX-512 CPU can be made on any other.
#pragma once

#include "ridge/pool/isa.h"
#include "ridge/pool/pool.h"
#include "ridge/tile/cpu/engine.h"

namespace ridge::tile::cpu {

struct Problem {
  Index batch = 1, m = 0, n = 0, k = 0;
};

struct Schedule {
  bool pack_left = true, pack_right = true;  // false: read in place
  bool thin = false;                         // few rows: B is read once, in place
  bool scratch = false;                      // sums must not lie in the output
  Index groups = 1;                          // of rows
  Index row_blocks = 1;                      // in a group
  Index column_blocks = 1;
  Index stages = 1;      // of k
  Index panel_rows = 1;  // at most so many in a panel of A
  bool team = true;      // the threads share a group and cut its columns; false: each takes whole groups of its own
  bool operator==(const Schedule&) const = default;
};

// Upper limits from the kernel's config: a tile never exceeds them.
struct TileLimits {
  Index m = 0, n = 0, k = 0;
};

struct Operands {
  const Engine* engine = nullptr;
  int left_bytes = 0, right_bytes = 0;  // of an element
  const Matrix *left = nullptr, *right = nullptr;
  Index right_parts = 1;    // matrices like `right` that are multiplied at once
  bool right_alike = true;  // all of them are contiguous along the same axis; else each is packed
  Caches caches = cpu::caches();
};

// The engine that runs this product: `engine`, or the one that it names for few rows.
const Engine& engine_for(const Problem& problem, const Engine& engine, const Matrix& right, bool right_alike,
                         const Caches& near_core = caches());

Schedule choose(const Problem& problem, const Operands& operands, TileLimits limits, int threads);

constexpr Index ceil_div(Index a, Index b) { return a / b + (a % b != 0 ? 1 : 0); }

// Part `i` of 0 … count in `parts`, cut at multiples of `grain`.
constexpr Range part(Index count, Index parts, Index i, Index grain = 1) {
  if (parts == 1) return {0, count};  // divisions are what a small product's time goes to
  const Index grains = ceil_div(count, grain), each = grains / parts, more = grains % parts;
  const Index begin = (i * each + (i < more ? i : more)) * grain, end = begin + (each + (i < more ? 1 : 0)) * grain;
  return {begin < count ? begin : count, (end < count ? end : count) - (begin < count ? begin : count)};
}

}  // namespace ridge::tile::cpu
