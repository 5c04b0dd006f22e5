#include "ridge/tile/cpu/schedule.h"

#include <algorithm>
#include <numeric>

namespace ridge::tile::cpu {
namespace {

constexpr Index max_packed_left_bytes = Index{16} << 20;  // limit of packed A, over all threads
constexpr Index max_scratch_bytes = Index{16} << 20;      // limit of the sums that a thread keeps between stages of k

Index round_up(Index a, Index to) { return ceil_div(a, to) * to; }

bool is_computed_across_k(const Matrix& right) { return right.computed != nullptr && !right.computed->along_k; }

// True if B across k is read in place because it fits in the L2. With many rows of A, rows of B must also be short.
bool can_read_right_in_place(const MatmulSizes& p, const MatmulOperands& o) {
  return o.right->computed == nullptr && o.right_uniform && o.engine->right_in_place && o.right->prepacked == nullptr &&
         o.right->row_stride == 1 && (p.size.n <= 512 || p.size.m <= max_skinny_rows) &&
         p.size.k * p.size.n * o.right_bytes <= o.caches.l2 * 9 / 8;
}

// Largest k, in elements, for which packing B along k takes less time than adding the lanes of each dot product. A
// register block has two vectors of columns. Packing a column takes time proportional to k, the additions proportional
// to the rows. They cost the same at k = 6 per row with 16 lanes and 12 per row with 8 lanes, where five rows need
// several passes. Fewer columns leave lanes of the packed vectors empty (Zen 5, one thread).
Index max_short_k(const MatmulSizes& p, const Engine& e) {
  const Index lanes = e.cols / 2, rows = lanes < 16 ? std::min<Index>(p.size.m, 5) : p.size.m;
  if (p.size.n < max_narrow_columns) return std::min(32 / lanes * rows, 5 * p.size.n) * e.per_unit;
  return (p.size.n < 32 ? 64 : 96) / lanes * rows * e.per_unit;
}

// True if dot products of a few columns take less time than a register block whose vectors they hardly fill.
bool has_narrow_dots(const MatmulSizes& p, const MatmulOperands& o) {
  return o.engine->multiply_small != nullptr && o.engine->cols / 2 >= 16 && o.right->computed == nullptr &&
         p.size.n < max_narrow_columns && p.size.m <= max_small_size;
}

}  // namespace

bool prefers_skinny_schedule(const MatmulSizes& p, const MatmulOperands& o, int threads) {
  const Engine& e = *o.engine;
  const bool packed = o.right->prepacked != nullptr, along_k = !packed && o.right->col_stride == 1;
  const bool widened = o.right_bytes * e.per_unit < static_cast<Index>(sizeof(Unit));  // every pass widens B again
  Index max_rows = widened ? max_skinny_rows_widened : max_skinny_rows_along_k;
  if (e.max_skinny_along_k_rows != 0) max_rows = e.max_skinny_along_k_rows;
  const bool narrow = along_k && has_narrow_dots(p, o);
  if (narrow) max_rows = max_small_size;
  if (!along_k) max_rows = max_skinny_rows_across_k;
  if (packed) max_rows = max_skinny_rows;
  // AMX tiles read B in place, so a computed B is packed.
  if (o.right->computed != nullptr && e.skinny_left_packers.along_k != nullptr) return false;
  const auto in_place = along_k ? e.skinny_along_k : e.skinny_across_k;
  if (p.size.m > max_rows || (packed ? e.skinny_packed : in_place) == nullptr) return false;
  const bool adds_lanes = along_k && e.skinny_left_packers.along_k == nullptr && o.right->computed == nullptr;
  if (adds_lanes && (narrow || p.size.m <= max_skinny_rows_across_k) && p.size.k <= max_short_k(p, e)) return false;
  const bool sums_in_c = !e.needs_sum_scratch;
  // If B fits in the L2, the normal schedule is faster, because its sums stay in registers over all of k.
  if (!along_k && sums_in_c && can_read_right_in_place(p, o)) return false;
  const Index in_l2 =
      sums_in_c ? o.caches.l2 * 2 : o.caches.l2 * 9 / 8;  // largest B that suits the normal schedule, bytes
  if (!packed && !along_k && p.size.m > max_skinny_rows && p.size.k * p.size.n * o.right_bytes <= in_l2) return false;
  // Packing int8 quads takes less time than a second pass over quads in the L2.
  if (along_k && e.per_unit == 4 && e.step_multiple == 1 && p.size.m > max_skinny_rows &&
      p.size.k * p.size.n * o.right_bytes <= o.caches.l2)
    return false;
  // AMX tiles multiply several groups of rows with B in place only if B is larger than the L2.
  if (along_k && e.skinny_left_packers.along_k != nullptr && p.size.m > rows_per_tile_group &&
      p.size.k * p.size.n * o.right_bytes <= o.caches.l2)
    return false;
  // One thread packs A for the tiles while the others wait, so A must be smaller than B. With several k blocks this
  // also applies to a single thread, so that the summation order does not depend on the number of threads.
  if (along_k && e.skinny_left_packers.along_k != nullptr && p.size.n < 2 * p.size.m &&
      (threads > 1 || p.size.k > tile_k_block_elements(p.size.m, e.per_unit)))
    return false;
  return true;
}

namespace {

// Returns a schedule with one stage of k and several column blocks. With B across k the sums of a column block must
// stay in cache: sums in scratch may take an eighth of the L2, sums in C 8 to 64 KiB per row. With B along k any number
// of columns works.
CpuSchedule make_skinny_schedule(const MatmulSizes& p, const MatmulOperands& o, int threads) {
  const Engine& e = *o.engine;
  const bool along_k = o.right->prepacked == nullptr && o.right->col_stride == 1, sums_in_c = !e.needs_sum_scratch;
  CpuSchedule s;
  s.panel_rows = e.rows;
  s.skinny = true;
  s.pack_right = false;
  s.pack_left = !along_k;
  // With sums in C, threads that add to the same cache line would wait for each other at each step.
  s.scratch_sums = !along_k && sums_in_c && p.size.m > (threads > 1 ? 1 : 2);
  Index columns_per_block = p.size.m <= max_skinny_rows ? 4096 : 2048;
  if (p.size.m == 1) columns_per_block = 16384;
  if (!sums_in_c)
    columns_per_block = std::max<Index>(o.caches.l2 / 8 / std::max<Index>(p.size.m, 1) / e.cols, 1) * e.cols;
  if (along_k) columns_per_block = 240;
  s.column_blocks = std::max<Index>(1, ceil_div(p.size.n, columns_per_block));
  s.shares_groups = p.batch < 2 * threads;
  if (s.shares_groups && p.size.n >= 32 * threads) s.column_blocks = round_up(s.column_blocks, threads);
  return s;
}

// True if A is read in place. Each panel of A is then read once per panel of columns of every right operand, and rows
// whose stride is a multiple of 4 KiB evict each other from the L1.
bool can_read_left_in_place(const MatmulSizes& p, const MatmulOperands& o, Index stages) {
  const Engine& e = *o.engine;
  const Matrix& a = *o.left;
  const Index k_granularity = e.per_unit * e.step_multiple;
  if (!e.left_in_place || a.col_stride != 1 || a.row_stride % e.per_unit != 0 || p.size.k % k_granularity != 0 ||
      a.batch_stride % e.per_unit != 0)
    return false;
  const Index n = p.size.n * o.right_parts;
  if (e.step_multiple > 1) return n <= 4 * e.cols || (stages == 1 && a.row_stride * o.left_bytes <= 2048);
  return n <= 384 || (n <= 512 && a.row_stride * o.left_bytes <= 4096);
}

// The sizes of a stage of B: steps of k, columns, and whether its panels are read in memory order.
struct StageSizes {
  Index stages, columns;
  bool in_order;
};

// k per stage: a panel of A fills at most two thirds of the L1. A stage of B fills at most three eighths of the L2, or
// a quarter if a separate pass packs it, which also reads as much as it writes. A stage is at least seven panels wide;
// a narrower one would be read from memory in short runs.
StageSizes choose_stage_sizes(const MatmulSizes& p, const MatmulOperands& o, TileLimits limits) {
  const Engine& e = *o.engine;
  const Index units = packed_units(e, p.size.k), unit_bytes = sizeof(Unit);
  const bool passes = o.right->prepacked == nullptr && !e.block_packs_right && e.step_multiple == 1;
  const Index stage_bytes = o.caches.l2 * (passes ? 2 : 3) / 8;
  const Index l1_steps = o.caches.l1d * 2 / 3 / (e.rows * unit_bytes),
              l2_steps = stage_bytes / (7 * e.cols * unit_bytes);
  // With few rows and prepacked weights memory is the limit, so panels are read in memory order.
  const bool in_order = o.right->prepacked != nullptr && p.size.m <= 2 * e.rows;
  // With few rows the packing pass is the limit: longer contiguous reads of B gain more than reloading sums costs.
  const bool long_runs = passes && o.right->computed == nullptr && o.right->row_stride == 1 && p.size.m <= 16 * e.rows;
  const Index run_steps = long_runs ? Index{128} : l1_steps;
  // With one panel of rows B in place is read once, and further stages would only load the sums again.
  const bool one_pass_in_place = p.size.m <= e.rows && can_read_right_in_place(p, o);
  const Index fit = in_order || one_pass_in_place ? l1_steps : std::min({l1_steps, l2_steps, run_steps});
  const Index max_steps = std::max<Index>(fit / 32 * 32, 64);
  const Index steps = std::max<Index>(1, std::min(max_steps, limits.k / e.per_unit));
  const Index max_stages = std::max<Index>(1, ceil_div(p.size.k, stage_multiple(e, *o.right)));
  const Index stages = std::clamp<Index>(ceil_div(units, steps), 1, max_stages),
              deep = std::max<Index>(ceil_div(units, stages), 1);
  const Index fit_columns = stage_bytes / o.right_parts / (deep * unit_bytes) / e.cols * e.cols;
  return {stages, std::max<Index>(e.cols, std::min(fit_columns, limits.n)), in_order};
}

// Divides the columns or the rows of shared groups among the threads. Threads get full panels of columns. If a thread
// would get a quarter more columns than the average, rows are split instead, and each thread packs B. The same holds
// for few columns, unless B is along k and k is long: then packing all of B takes longer than reading all of A, if A is
// not much larger.
void divide_shared_groups(const MatmulSizes& p, const MatmulOperands& o, int threads, CpuSchedule& s) {
  const Engine& e = *o.engine;
  const bool is_even = round_up(p.size.n, e.cols * threads) * 4 <= p.size.n * 5;
  // With several stages of k, packing all of B twice costs more than uneven columns, unless B is computed from an input
  // in the caches.
  const bool packs_once = s.stages * s.column_blocks == 1 || is_computed_across_k(*o.right);
  const bool cut_rows = p.size.n >= 2 * e.cols * threads
                            ? !is_even && packs_once && 2 * p.size.m >= 3 * e.rows * threads
                            : !is_even || s.stages == 1 || o.right->row_stride == 1 || p.size.m > 2 * p.size.n;
  if (!cut_rows) {
    s.column_blocks = round_up(s.column_blocks, threads);
  } else if (p.size.m >= 2 * e.rows) {
    s.groups = round_up(s.groups, threads);
    s.shares_groups = false;
  }
}

}  // namespace

bool has_one_stage_in_place(const MatmulSizes& p, const MatmulOperands& o) {
  return can_read_right_in_place(p, o) && choose_stage_sizes(p, o, {p.size.m, p.size.n, p.size.k}).stages == 1;
}

Index stage_multiple(const Engine& engine, const Matrix& right) {
  return right.computed == nullptr ? engine.k_multiple : std::lcm(Index{engine.k_multiple}, right.computed->k_multiple);
}

const Engine& choose_engine(const MatmulSizes& p, const Engine& engine, const Matrix& right, bool right_uniform,
                            const pool::CacheSizes& core_caches) {
  const Index unit_bytes = sizeof(Unit);
  const bool in_l2 = p.size.k * p.size.n / engine.per_unit * unit_bytes <= core_caches.l2 / 2;
  const Index max_across_k_rows = in_l2 ? engine.few_row_limits.in_l2 : engine.few_row_limits.across_k;
  const Index max_rows = right.col_stride == 1 ? engine.few_row_limits.along_k : max_across_k_rows;
  const bool few = p.size.m <= max_rows && right.prepacked == nullptr && !is_computed_across_k(right) && right_uniform;
  return few && engine.few_rows_engine != nullptr ? *engine.few_rows_engine() : engine;
}

CpuSchedule choose_schedule(const MatmulSizes& p, const MatmulOperands& o, TileLimits limits, int threads) {
  if (o.right_uniform && !is_computed_across_k(*o.right) && prefers_skinny_schedule(p, o, threads))
    return make_skinny_schedule(p, o, threads);
  const Engine& e = *o.engine;
  const StageSizes stage = choose_stage_sizes(p, o, limits);
  CpuSchedule s;
  s.panel_rows = e.rows;
  s.stages = stage.stages;
  s.column_blocks = std::max<Index>(1, ceil_div(p.size.n, stage.in_order ? e.cols : stage.columns));
  const Index mc = std::max<Index>(e.rows, limits.m / e.rows * e.rows);
  // Tiles of sums that are reloaded need rows that are line-aligned and in different L1 sets.
  s.scratch_sums = e.step_multiple > 1 && s.stages > 1;
  const auto groups = [&](Index sharing_threads) {
    const Index unit_bytes = sizeof(Unit), row_bytes = std::max<Index>(packed_units(e, p.size.k), 1) * unit_bytes;
    Index rows = max_packed_left_bytes / sharing_threads / row_bytes;
    if (s.scratch_sums) rows = std::min(rows, max_scratch_bytes / (stage.columns * o.right_parts * unit_bytes));
    return std::max<Index>(1, ceil_div(p.size.m, std::max(mc, rows / mc * mc)));
  };
  s.groups = groups(1);
  // If each thread has enough columns, they share a group, so that the L3 need not hold a group per thread.
  s.shares_groups = p.batch * s.groups < 2 * threads || (p.batch < 2 * threads && p.size.n >= stage.columns * threads);
  if (!s.shares_groups) s.groups = groups(threads);
  if (threads > 1 && s.shares_groups) divide_shared_groups(p, o, threads, s);
  s.row_blocks = std::max<Index>(1, ceil_div(ceil_div(p.size.m, s.groups), mc));
  s.pack_left = !can_read_left_in_place(p, o, s.stages);
  // If rows of A in place share one L1 set, panels have fewer rows, so that ways remain for B.
  if (!s.pack_left && e.row_multiple == 1 && o.left->row_stride * o.left_bytes % 4096 == 0)
    s.panel_rows = std::min(s.panel_rows, Index{8});
  s.pack_right = o.right->prepacked == nullptr && !can_read_right_in_place(p, o);
  return s;
}

}  // namespace ridge::tile::cpu
