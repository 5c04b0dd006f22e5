#include "ridge/tile/cpu/schedule.h"

#include <algorithm>

namespace ridge::tile::cpu {
namespace {

constexpr Index most_packed_left = Index{16} << 20;  // bytes of A packed at once, by all threads together
constexpr Index most_scratch = Index{16} << 20;      // bytes of sums of each thread that wait for the next stage of k

Index rounded_up(Index a, Index to) { return ceil_div(a, to) * to; }

// B whose columns are contiguous is read in place from the L2: by many rows of A where its rows are short.
bool read_right_in_place(const Problem& p, const Operands& o) {
  return o.right_alike && o.engine->direct_right && o.right->prepacked == nullptr && o.right->row_stride == 1 &&
         (p.n <= 512 || p.m <= most_thin_rows) && p.k * p.n * o.right_bytes <= o.caches.l2 * 9 / 8;
}

// Few rows: whole k at once, in strips of columns. Where columns are contiguous a strip's sums stay near, and B is read
// in runs that long: they fill half of the L2 where they have room of their own, else 8 to 64 KiB of C a row. Where k
// is contiguous, any cut will do.
bool choose_thin(const Problem& p, const Operands& o, int threads, Schedule& s) {
  const Engine& e = *o.engine;
  const bool packed = o.right->prepacked != nullptr, along = !packed && o.right->col_stride == 1;
  const bool widened = o.right_bytes * e.per_unit < static_cast<Index>(sizeof(Unit));  // again in every pass
  Index most = widened ? most_thin_rows_widened : most_thin_rows_along;
  if (e.most_thin_along != 0) most = e.most_thin_along;
  if (!along) most = most_thin_rows_across;
  if (packed) most = most_thin_rows;
  const auto in_place = along ? e.thin_along : e.thin_across;
  if (p.m > most || (packed ? e.thin_packed : in_place) == nullptr) return false;
  const bool in_c = !e.room_for_sums;
  // Sums in registers over all of k beat sums that come and go, where B need not come in long runs.
  if (!along && in_c && read_right_in_place(p, o)) return false;
  const Index in_l2 = in_c ? o.caches.l2 * 2 : o.caches.l2 * 9 / 8;  // bytes of B that the way of all others reads well
  if (!packed && !along && p.m > most_thin_rows && p.k * p.n * o.right_bytes <= in_l2) return false;
  // Quads are packed in less time than a second pass takes over those that are near.
  if (along && e.per_unit == 4 && e.tile_steps == 1 && p.m > most_thin_rows && p.k * p.n * o.right_bytes <= o.caches.l2)
    return false;
  // Tiles take further groups of rows over weights in the L2 that memory delivers slowly, not over any others.
  if (along && e.thin_left.along != nullptr && p.m > rows_of_a_group && p.k * p.n * o.right_bytes <= o.caches.l2)
    return false;
  // One thread packs A's tiles while the others wait: not where A is as large as B. Nor does one alone where its sums
  // would come in another order then.
  if (along && e.thin_left.along != nullptr && p.n < 2 * p.m && (threads > 1 || p.k > tile_stretch(p.m, e.per_unit)))
    return false;
  s.thin = true;
  s.pack_right = false;
  s.pack_left = !along;
  // Two threads that add to one line of C wait for each other at each step.
  s.scratch = !along && in_c && p.m > (threads > 1 ? 1 : 2);
  Index strip = p.m <= most_thin_rows ? 4096 : 2048;
  if (p.m == 1) strip = 16384;
  if (!in_c) strip = std::max<Index>(o.caches.l2 / 8 / std::max<Index>(p.m, 1) / e.cols, 1) * e.cols;
  if (along) strip = 240;
  s.column_blocks = std::max<Index>(1, ceil_div(p.n, strip));
  s.team = p.batch < 2 * threads;
  if (s.team && p.n >= 32 * threads) s.column_blocks = rounded_up(s.column_blocks, threads);
  return true;
}

// A panel that is read in place is read again for each panel of columns, of every right operand: rows a multiple of 4
// KiB apart keep each other out of the L1.
bool read_left_in_place(const Problem& p, const Operands& o, Index stages) {
  const Engine& e = *o.engine;
  const Matrix& a = *o.left;
  const Index whole = e.per_unit * e.tile_steps;
  if (!e.direct_left || a.col_stride != 1 || a.row_stride % e.per_unit != 0 || p.k % whole != 0 ||
      a.batch_stride % e.per_unit != 0)
    return false;
  const Index n = p.n * o.right_parts;
  if (e.tile_steps > 1) return n <= 4 * e.cols || (stages == 1 && a.row_stride * o.left_bytes <= 2048);
  return n <= 384 || (n <= 512 && a.row_stride * o.left_bytes <= 4096);
}

}  // namespace

const Engine& engine_for(const Problem& p, const Engine& engine, const Matrix& right, bool right_alike,
                         const Caches& near_core) {
  const Index unit_bytes = sizeof(Unit);
  const bool in_l2 = p.k * p.n / engine.per_unit * unit_bytes <= near_core.l2 / 2;
  const Index most_across = in_l2 ? engine.few.in_l2 : engine.few.across;
  const Index most = right.col_stride == 1 ? engine.few.along : most_across;
  const bool few = p.m <= most && right.prepacked == nullptr && right_alike;
  return few && engine.for_few != nullptr ? *engine.for_few() : engine;
}

Schedule choose(const Problem& p, const Operands& o, TileLimits limits, int threads) {
  const Engine& e = *o.engine;
  Schedule s;
  s.panel_rows = e.rows;
  if (o.right_alike && choose_thin(p, o, threads, s)) return s;
  const Index units = units_of(e, p.k), unit_bytes = sizeof(Unit);
  const Matrix& b = *o.right;
  // k: a panel of A fills at most two thirds of the L1. With n a stage of B fills three eighths of the L2, or a quarter
  // where a pass of its own packs it, which reads as much as it writes, beside a neighbour on the same core; in it a
  // stage is at least seven panels wide: narrower, it would be read from memory in short runs.
  const bool passes = b.prepacked == nullptr && !e.keeps_right && e.tile_steps == 1;
  const Index stage_bytes = o.caches.l2 * (passes ? 2 : 3) / 8;
  const Index l1_steps = o.caches.l1d * 2 / 3 / (e.rows * unit_bytes),
              l2_steps = stage_bytes / (7 * e.cols * unit_bytes);
  // Few rows pass so quickly over packed weights that memory is the limit: panel after panel, as they lie in it.
  const bool in_order = o.right->prepacked != nullptr && p.m <= 2 * e.rows;
  // Few rows wait for that pass, and longer runs of each row of B are worth that their sums come back more often.
  const bool long_runs = passes && b.row_stride == 1 && p.m <= 16 * e.rows;
  const Index of_a_run = long_runs ? Index{128} : l1_steps;
  const Index fit = in_order ? l1_steps : std::min({l1_steps, l2_steps, of_a_run});
  const Index most_steps = std::max<Index>(fit / 32 * 32, 64);
  const Index kc = std::max<Index>(1, std::min(most_steps, limits.k / e.per_unit));
  s.stages = std::max<Index>(1, ceil_div(units, kc));
  const Index deep = std::max<Index>(ceil_div(units, s.stages), 1);
  const Index nc =
      std::max<Index>(e.cols, std::min(stage_bytes / o.right_parts / (deep * unit_bytes) / e.cols * e.cols, limits.n));
  s.column_blocks = std::max<Index>(1, ceil_div(p.n, in_order ? e.cols : nc));
  const Index mc = std::max<Index>(e.rows, limits.m / e.rows * e.rows);
  // Tiles of sums that come back want rows that begin with a line and do not share a set of the L1.
  s.scratch = e.tile_steps > 1 && s.stages > 1;
  const auto groups = [&](Index sharers) {
    const Index row_bytes = std::max<Index>(units, 1) * unit_bytes;
    Index rows = most_packed_left / sharers / row_bytes;
    if (s.scratch) rows = std::min(rows, most_scratch / (nc * o.right_parts * unit_bytes));
    return std::max<Index>(1, ceil_div(p.m, std::max(mc, rows / mc * mc)));
  };
  s.groups = groups(1);
  // Where each thread has columns enough they share a group: one each would be as many groups in the L3 as threads.
  s.team = p.batch * s.groups < 2 * threads || (p.batch < 2 * threads && p.n >= nc * threads);
  if (!s.team) s.groups = groups(threads);
  if (threads > 1 && s.team) {
    // A thread takes whole panels. Where it gets a quarter more than its share, rows are cut, and all pack B. So they
    // are where columns are few, unless k is contiguous and long: packing all of that B takes longer than reading all
    // of an A that is not much larger.
    const bool even = rounded_up(p.n, e.cols * threads) * 4 <= p.n * 5;
    const bool cut_rows = p.n >= 2 * e.cols * threads
                              ? !even && s.stages * s.column_blocks == 1 && 2 * p.m >= 3 * e.rows * threads
                              : !even || s.stages == 1 || b.row_stride == 1 || p.m > 2 * p.n;
    if (!cut_rows) {
      s.column_blocks = rounded_up(s.column_blocks, threads);
    } else if (p.m >= 2 * e.rows) {
      s.groups = rounded_up(s.groups, threads);
      s.team = false;
    }
  }
  s.row_blocks = std::max<Index>(1, ceil_div(ceil_div(p.m, s.groups), mc));
  s.pack_left = !read_left_in_place(p, o, s.stages);
  // Rows in place that lie in one set of the L1 leave ways for B.
  if (!s.pack_left && e.row_grain == 1 && o.left->row_stride * o.left_bytes % 4096 == 0)
    s.panel_rows = std::min(s.panel_rows, Index{8});
  s.pack_right = b.prepacked == nullptr && !read_right_in_place(p, o);
  return s;
}

}  // namespace ridge::tile::cpu
