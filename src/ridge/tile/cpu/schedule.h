// A schedule partitions a product at run time. Rows are split into groups (a group of A is packed once, which bounds
// the memory), groups into row blocks, columns into column blocks, k into stages. A work item is (row block, column
// block). A stage of k is finished for all row blocks of a group before the next stage starts, so that they share the
// packed stage of B. Sizes follow from the caches: with 32 KiB of L1 and 1 MiB of L2, a panel of A of 14 x 384 f32
// takes 21 KiB and a stage of B of 384 x 256 takes 384 KiB. The number of threads affects only the splits of m and n,
// which change no summation order. The schedule depends on the arguments only, so schedules for an AVX-512 CPU can be
// made on any CPU.
#pragma once

#include "ridge/base/ceil_div.h"
#include "ridge/base/product_size.h"
#include "ridge/pool/isa.h"
#include "ridge/pool/pool.h"
#include "ridge/tile/cpu/engine.h"

namespace ridge::tile::cpu {

struct MatmulSizes {
  Index batch = 1;
  ProductSize size;
};

struct CpuSchedule {
  bool pack_left = true, pack_right = true;  // false if the operand is read in place
  bool skinny = false;                       // true for few rows: B is read once, in place or prepacked
  bool scratch_sums = false;                 // true if sums are in scratch memory, not in the output
  Index groups = 1;                          // groups of rows
  Index row_blocks = 1;                      // row blocks per group
  Index column_blocks = 1;
  Index stages = 1;           // stages of k
  Index panel_rows = 1;       // maximum rows in a panel of A
  bool shares_groups = true;  // true if threads share each group and split its columns; else each has its own
  bool operator==(const CpuSchedule&) const = default;
};

// Upper limits of a tile from the kernel's config.
struct TileLimits {
  Index m = 0, n = 0, k = 0;
};

struct MatmulOperands {
  const Engine* engine = nullptr;
  int left_bytes = 0, right_bytes = 0;  // bytes per element
  const Matrix *left = nullptr, *right = nullptr;
  Index right_parts = 1;      // number of right matrices that one kernel multiplies
  bool right_uniform = true;  // true if all of them have the same contiguous axis
  pool::CacheSizes caches = pool::cache_sizes();
};

// Returns the number of elements at whose multiples k is split into stages.
Index stage_multiple(const Engine& engine, const Matrix& right);

// Returns the engine that runs this product: `engine` or, for few rows, its few_rows_engine.
const Engine& choose_engine(const MatmulSizes& problem, const Engine& engine, const Matrix& right, bool right_uniform,
                            const pool::CacheSizes& core_caches = pool::cache_sizes());

// True if a schedule for few rows, which read B once, is faster than the normal one.
bool prefers_skinny_schedule(const MatmulSizes& problem, const MatmulOperands& operands, int threads);

// True if B across k is read in place and k is not split into stages.
bool has_one_stage_in_place(const MatmulSizes& problem, const MatmulOperands& operands);

CpuSchedule choose_schedule(const MatmulSizes& problem, const MatmulOperands& operands, TileLimits limits, int threads);

// Returns part `i` of the range 0 … count - 1, which is split into `parts` parts at multiples of `multiple`.
constexpr Range split_range(Index count, Index parts, Index i, Index multiple = 1) {
  if (parts == 1) return {0, count};  // skips divisions, which dominate small products
  const Index units = ceil_div(count, multiple), each = units / parts, more = units % parts;
  const Index begin = (i * each + (i < more ? i : more)) * multiple,
              end = begin + (each + (i < more ? 1 : 0)) * multiple;
  return {begin < count ? begin : count, (end < count ? end : count) - (begin < count ? begin : count)};
}

}  // namespace ridge::tile::cpu
