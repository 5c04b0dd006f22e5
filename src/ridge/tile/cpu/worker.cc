#include "ridge/tile/cpu/worker.h"

#include <algorithm>

#include "ridge/pool/arena.h"
#include "ridge/pool/isa.h"

namespace ridge::tile::cpu {
namespace {

constexpr Index stream_elements = Index{8} << 20;

const char* element(const Matrix& m, Index batch, Index row, Index col, int bytes) {
  return static_cast<const char*>(m.data) + (batch * m.batch_stride + row * m.row_stride + col * m.col_stride) * bytes;
}

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

void pack(const Packers& packers, const Matrix& m, const Packing& packing) {
  (m.col_stride == 1 ? packers.along : packers.across)(packing);
}

// Packs the rows of A for `skinny_along_k`, one k block after the other.
void pack_rows(const Engine& e, const Matrix& m, Index batch, int bytes, Index rows, Unit* out) {
  const bool few = e.few_stretch != 0 && rows <= most_thin_rows;
  const Index deep = (few ? e.few_stretch : thin_depth(rows)) * e.per_unit;
  for (Index k = 0; k < m.cols; k += deep) {
    const Index part = std::min(deep, m.cols - k);
    for (Index i = 0; i < rows; ++i, out += ceil_div(part, e.per_unit) + e.left_tail)
      pack(e.left, m,
           {.source = element(m, batch, i, k, bytes),
            .stride = m.col_stride == 1 ? m.row_stride : m.col_stride,
            .lanes = 1,
            .width = 1,
            .k = part,
            .out = out});
  }
}

}  // namespace

Worker::~Worker() {
  if (shape_ != 0) team_.operands.engine->release();
#if defined(__x86_64__)
  if (streamed_) __builtin_ia32_sfence();
#endif
}

// Returns the address of a panel of rows and a stage in the team's packed A.
Unit* Worker::packed_left(Index row, Index rows, Index k, Index k_stage) const {
  const Engine& e = *team_.operands.engine;
  const Index units = units_of(e, team_.problem.k) + team_.schedule.stages * e.left_tail;
  return team_.left + (row - team_.rows.begin) * units + (k / e.per_unit + k_stage * e.left_tail) * rows;
}

// Returns a packed panel of A. The first worker packs it; the others wait for that worker, which itself never waits.
const Unit* Worker::left(const Announced& a, Index panel, Range rows) {
  const Engine& e = *team_.operands.engine;
  const Index first = a.along.begin + rows.begin;
  Unit* const out = packed_left(first, rows.size, a.k.begin, stage);
  std::atomic<unsigned char>& packed = done(row_block, panel, stage);
  if (packed.load(std::memory_order_acquire) == 2) return out;
  unsigned char expected = 0;
  if (!packed.compare_exchange_strong(expected, 1)) {
    while (packed.load(std::memory_order_acquire) != 2) pause();
    return out;
  }
  if (team_.schedule.thin && !team_.schedule.pack_left) {
    if (e.thin_left.along != nullptr)
      pack(e.thin_left, *a.matrix,
           {.source = element(*a.matrix, team_.batch, first, a.k.begin, team_.operands.left_bytes),
            .stride = a.matrix->col_stride == 1 ? a.matrix->row_stride : a.matrix->col_stride,
            .lanes = static_cast<int>(rows.size),
            .width = static_cast<int>(ceil_div(rows.size, e.row_grain) * e.row_grain),
            .k = a.k.size,
            .out = out});
    else
      pack_rows(e, *a.matrix, team_.batch, team_.operands.left_bytes, rows.size, out);
    packed.store(2, std::memory_order_release);
    return out;
  }
  pack(e.left, *a.matrix,
       {.source = element(*a.matrix, team_.batch, first, a.k.begin, team_.operands.left_bytes),
        .stride = a.matrix->col_stride == 1 ? a.matrix->row_stride : a.matrix->col_stride,
        .lanes = static_cast<int>(rows.size),
        .width = static_cast<int>(rows.size),
        .k = a.k.size,
        .out = out});
  packed.store(2, std::memory_order_release);
  return out;
}

// Packs a stage of B. Across k it packs four panels together, a few rows at a time: panel by panel, each row would
// touch a new page for one or two lines, which costs a third of the bandwidth; with eight panels the stores share L1
// sets.
void Worker::pack_right(const Announced& b, Unit* out) const {
  const Engine& e = *team_.operands.engine;
  const int bytes = team_.operands.right_bytes;
  const Index units = units_of(e, b.k.size),
              stride = b.matrix->col_stride == 1 ? b.matrix->row_stride : b.matrix->col_stride;
  const bool along = b.matrix->col_stride == 1;
  const Index together = (along ? 1 : 4) * e.cols, deep = along ? b.k.size : 16 * e.per_unit;
  for (Index group = 0; group < b.along.size; group += together)
    for (Index k = 0; k < b.k.size; k += deep)
      for (Index j = group; j < std::min(group + together, b.along.size); j += e.cols) {
        pack(e.right, *b.matrix,
             {.source = element(*b.matrix, team_.batch, b.along.begin + j, b.k.begin + k, bytes),
              .stride = stride,
              .lanes = static_cast<int>(std::min<Index>(e.cols, b.along.size - j)),
              .width = e.cols,
              .k = std::min(deep, b.k.size - k),
              .out = out + j * units + k / e.per_unit * e.cols});
      }
}

// Returns the panels of a stage of B: packed by the worker, prepacked, or in place. The block may read a stage in place
// for the first panel of A and pack it for the others meanwhile: these stores cost less than a separate pass.
Worker::RightPanels Worker::right(const Announced& b, int of) {
  const Engine& e = *team_.operands.engine;
  const Index steps = units_of(e, b.k.size);
  if (b.matrix->prepacked != nullptr) {
    const Index units = units_of(e, team_.problem.k);
    const Unit* const all = static_cast<const Unit*>(b.matrix->prepacked);
    return {all + b.along.begin * units + b.k.begin / e.per_unit * e.cols, e.cols * units, e.cols};
  }
  RightPanels in_place{reinterpret_cast<const Unit*>(
                           element(*b.matrix, team_.batch, b.along.begin, b.k.begin, team_.operands.right_bytes)),
                       e.cols, b.matrix->col_stride};
  if (!team_.schedule.pack_right) return in_place;
  Slot& slot = slots_[of];
  const bool held = slot.matrix == b.matrix && slot.k == b.k.begin && slot.column == b.along.begin;
  if (!held) {
    slot.data =
        static_cast<Unit*>(arenas().right[of].need(sizeof(Unit) * ceil_div(b.along.size, e.cols) * e.cols * steps));
    slot.matrix = b.matrix;
    slot.k = b.k.begin;
    slot.column = b.along.begin;
    if (e.keeps_right && team_.schedule.pack_left && b.matrix->row_stride == 1) {
      in_place.keep = slot.data;
      return in_place;
    }
    pack_right(b, slot.data);
  }
  return {slot.data, e.cols * steps, e.cols};
}

std::size_t prepacked_bytes(const Matrix& b, const Engine& e) {
  return sizeof(Unit) * static_cast<std::size_t>(ceil_div(b.rows, e.cols) * e.cols * units_of(e, b.cols));
}

void prepack(const Matrix& b, const Engine& e, int bytes, void* out) {
  const Index units = units_of(e, b.cols);
  for (Index j = 0; j < b.rows; j += e.cols) {
    pack(e.right, b,
         {.source = element(b, 0, j, 0, bytes),
          .stride = b.col_stride == 1 ? b.row_stride : b.col_stride,
          .lanes = static_cast<int>(std::min<Index>(e.cols, b.rows - j)),
          .width = e.cols,
          .k = b.cols,
          .out = static_cast<Unit*>(out) + j * units});
  }
}

void Worker::multiply_thin(const Sums& sums, const Announced& a, const Announced& b) {
  const Engine& e = *team_.operands.engine;
  const bool packed = b.matrix->prepacked != nullptr, along = !packed && b.matrix->col_stride == 1;
  Strip strip;
  strip.rows = static_cast<int>(a.along.size);
  strip.k = a.k.size;
  strip.n = b.along.size;
  strip.c = sums.data;
  strip.c_stride = sums.stride;
  strip.add = sums.add;
  strip.in_l2 = team_.problem.k * team_.problem.n * team_.operands.right_bytes <= team_.operands.caches.l2 / 2;
  if (packed) {
    const RightPanels from = right(b, 0);
    strip.b = from.data;
    strip.b_stride = from.stride;
    strip.b_panel = from.panel;
  } else {
    strip.b = element(*b.matrix, team_.batch, b.along.begin, b.k.begin, team_.operands.right_bytes);
    strip.b_stride = along ? b.matrix->row_stride : b.matrix->col_stride;
    strip.b_panel = e.cols;
  }
  if (along) {
    strip.a_rows = left(a, 0, {0, a.along.size});
    return e.thin_along(strip);
  }
  strip.a = left(a, 0, {0, a.along.size});
  if (e.room_for_sums)  // reuses the memory of packed B
    strip.sums = arenas().right[0].need(sizeof(Unit) * ceil_div(strip.n, e.cols) * e.cols * strip.rows);
  (packed ? e.thin_packed : e.thin_across)(strip);
}

void Worker::multiply(const Sums& sums, const Announced& a, const Announced& b, int of) {
  if (team_.schedule.thin) return multiply_thin(sums, a, b);
  const Engine& e = *team_.operands.engine;
  const Schedule& s = team_.schedule;
  const Index steps = units_of(e, a.k.size);
  RightPanels from = right(b, of);
  Block block;
  block.steps = steps;
  block.c_stride = sums.stride;
  block.packed = s.pack_left;
  block.add = sums.add;
  if (e.release != nullptr) block.shape = &shape_;
  block.a_stride = a.matrix->row_stride / e.per_unit;
  // An output of 32 MiB or more that is written once would only evict the operands from the caches.
  block.stream = s.stages == 1 && !sums.add && team_.problem.m * team_.problem.n >= stream_elements &&
                 reinterpret_cast<std::uintptr_t>(sums.data) % 64 == 0 && sums.stride % 16 == 0;
  streamed_ |= block.stream;
  const Index count = ceil_div(a.along.size, s.panel_rows), grains = ceil_div(a.along.size, e.row_grain);
  const Index each = grains / count * e.row_grain, more = grains % count;
  Range panel;
  for (Index p = 0; p < count; ++p) {
    panel = {panel.end(), std::min(each + (p < more ? e.row_grain : 0), a.along.size - panel.end())};
    block.rows = static_cast<int>(panel.size);
    block.a = s.pack_left ? left(a, p, panel)
                          : reinterpret_cast<const Unit*>(element(*a.matrix, team_.batch, a.along.begin + panel.begin,
                                                                  a.k.begin, team_.operands.left_bytes));
    Unit* const c = static_cast<Unit*>(sums.data) + panel.begin * sums.stride;
    if (p > 0 && from.keep != nullptr) from = right(b, of);
    block.b_stride = from.stride;
    block.panel_units = from.panel;
    block.keep_units = e.cols * steps;
    const Index whole = b.along.size / e.cols;
    for (Index column_panel = 0; column_panel * e.cols < b.along.size;) {  // all full panels, then the partial one
      const Index j = column_panel * e.cols;
      block.panels = j == 0 && whole > 0 ? static_cast<int>(whole) : 1;
      block.cols = static_cast<int>(std::min<Index>(e.cols, b.along.size - j));
      block.b = from.data + column_panel * from.panel;
      block.c = c + j;
      if (from.keep != nullptr) block.keep = from.keep + column_panel * block.keep_units;
      // Assigned separately: copying the first to the second would wait for all earlier stores of sums.
      const char* const here = reinterpret_cast<const char*>(block.b);
      block.prefetch_a = {.base = here, .mask = 0};
      block.prefetch_b = {.base = here, .mask = 0};
      if (s.pack_left)
        prefetch_left(block, p, count, a, column_panel * (steps / 4) / Prefetch::straight * Prefetch::straight);
      if (next.right != nullptr) prefetch_right(block, panels_left - p, j);
      e.block(block);
      block.keep = nullptr;
      column_panel += block.panels;
    }
  }
}

// Plans prefetches of the next panel of A, which may be the first of the next row block; each column panel fetches a
// part.
void Worker::prefetch_left(Block& block, Index panel, Index count, const Announced& a, Index from) const {
  const Engine& e = *team_.operands.engine;
  const Schedule& s = team_.schedule;
  Range rows = a.along, k = a.k;
  Index block_of = row_block, stage_of = stage;
  if (++panel == count) {
    if (next.row_block < 0) return;
    const Range in_group = part(team_.rows.size, s.row_blocks, next.row_block, e.row_grain);
    rows = {team_.rows.begin + in_group.begin, in_group.size};
    k = next.stage == stage ? a.k : part(team_.problem.k, s.stages, next.stage, e.k_grain);
    panel = 0;
    count = ceil_div(rows.size, s.panel_rows);
    block_of = next.row_block;
    stage_of = next.stage;
  }
  const Range r = part(rows.size, count, panel, e.row_grain);
  const Index steps = units_of(e, k.size);
  if (done(block_of, panel, stage_of).load(std::memory_order_relaxed) == 2) {
    if (from * 16 >= steps * r.size) return;
    const Unit* const at = packed_left(rows.begin + r.begin, r.size, k.begin, stage_of);
    block.prefetch_a = {.base = reinterpret_cast<const char*>(at),
                        .mask = 0,
                        .shift = 6,
                        .from = from,
                        .bytes = steps * r.size * Index{sizeof(Unit)}};
  } else if (a.matrix->col_stride == 1) {
    if (from >= steps) return;
    const int bytes = team_.operands.left_bytes;
    block.prefetch_a = {.base = element(*a.matrix, team_.batch, rows.begin + r.begin, k.begin, bytes),
                        .stride = a.matrix->row_stride * bytes,
                        .mask = 15,
                        .shift = 2,
                        .from = from};
  }
}

// Plans prefetches of the next stage of B: a quarter during each of the last four panels of A of this stage.
void Worker::prefetch_right(Block& block, Index panels_to_come, Index column) const {
  const Engine& e = *team_.operands.engine;
  const Matrix& b = *next.right;
  // A half if a step of prepacked B is one line (16 columns), because four steps prefetch two lines.
  const Index parts = b.prepacked != nullptr ? e.cols / 8 : 4;
  const Index panel = std::min(parts, panels) - panels_to_come;
  if (panel < 0 || column >= next.columns.size) return;
  const int bytes = team_.operands.right_bytes;
  const Index quarter = block.steps / parts;
  if (b.prepacked != nullptr) {
    const Index units = units_of(e, team_.problem.k);
    const Unit* const at = static_cast<const Unit*>(b.prepacked) + (next.columns.begin + column) * units +
                           (next.k.begin / e.per_unit + panel * quarter) * e.cols;
    block.prefetch_b = {.base = reinterpret_cast<const char*>(at),
                        .stride = 128,
                        .mask = -1,
                        .panel = e.cols * units * static_cast<Index>(sizeof(Unit))};
    return;
  }
  if (b.col_stride == 1) {
    block.prefetch_b = {
        .base = element(b, team_.batch, next.columns.begin + column, next.k.begin, bytes) + panel * quarter / 32 * 128,
        .stride = b.row_stride * bytes,
        .mask = 31,
        .shift = 2,
        .panel = e.cols * b.row_stride * bytes};
    return;
  }
  const Index row = panel * quarter;
  if (row >= next.k.size) return;
  block.prefetch_b = {.base = element(b, team_.batch, next.columns.begin + column, next.k.begin + row, bytes),
                      .stride = b.col_stride * bytes,
                      .mask = -1,
                      .panel = e.cols * bytes};
}

}  // namespace ridge::tile::cpu
