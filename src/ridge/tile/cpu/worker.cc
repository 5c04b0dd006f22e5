#include "ridge/tile/cpu/worker.h"

#include <algorithm>

#include "ridge/pool/arena.h"
#include "ridge/pool/isa.h"

namespace ridge::tile::cpu {
namespace {

constexpr Index max_copied_bytes = Index{16} << 10;      // buffer of a computed B along k: half of an L1
constexpr Index min_streamed_elements = Index{8} << 20;  // larger outputs are stored non-temporally

const char* element_address(const Matrix& m, Index batch, Index row, Index col, int bytes) {
  return static_cast<const char*>(m.data) + (batch * m.batch_stride + row * m.row_stride + col * m.col_stride) * bytes;
}

void pause_cpu() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

void run_packer(const Packers& packers, const Matrix& m, const PackArgs& packing) {
  (m.col_stride == 1 ? packers.along_k : packers.across_k)(packing);
}

// Lengths of the k blocks of few rows, in elements: those of packed A, and those of a computed B that are copied
// together.
struct SkinnyBlocks {
  Index packed, copied;
};
constexpr Index max_copied_column_bytes = 8192;  // longer columns are read at a higher rate
constexpr Index skinny_copied_columns = 24;      // a multiple of the columns that any engine multiplies together

// True if few rows are multiplied by the blocks of a computed B, which are not copied.
bool reads_blocks(const Engine& e, const ComputedOperand& right, Index rows) {
  return e.skinny_scaled != nullptr && right.blocks != nullptr && rows <= max_skinny_rows_scaled;
}

SkinnyBlocks choose_skinny_blocks(const Engine& e, const MatmulOperands& o, Index rows) {
  const bool few_rows = e.few_rows_k_block_units != 0 && rows <= max_skinny_rows;
  const Index k_block = (few_rows ? e.few_rows_k_block_units : skinny_k_block_units(rows)) * e.per_unit;
  if (o.right->computed == nullptr || reads_blocks(e, *o.right->computed, rows)) return {k_block, 0};
  const Index multiple = o.right->computed->k_multiple, copied = max_copied_column_bytes / o.right_bytes;
  const Index packed = std::min(k_block, copied) / multiple * multiple;
  // An engine divides k into blocks of `k_block`, so several blocks of another length cannot be copied together.
  return {packed, packed == k_block ? copied / packed * packed : packed};
}

// Packs the rows of A for `skinny_along_k`, k block by k block.
void pack_skinny_rows(const Engine& e, const Matrix& m, Index batch, int bytes, Index rows, Index k_block, Unit* out) {
  for (Index k = 0; k < m.cols; k += k_block) {
    const Index part = std::min(k_block, m.cols - k);
    for (Index i = 0; i < rows; ++i, out += ceil_div(part, e.per_unit) + e.left_tail)
      run_packer(e.left_packers, m,
                 {.source = element_address(m, batch, i, k, bytes),
                  .stride = m.col_stride == 1 ? m.row_stride : m.col_stride,
                  .lanes = 1,
                  .width = 1,
                  .k = part,
                  .out = out});
  }
}

}  // namespace

Worker::~Worker() {
  if (shape_ != 0) team_.operands.engine->release_tiles();
#if defined(__x86_64__)
  if (has_streamed_) __builtin_ia32_sfence();
#endif
}

// Returns the address of a panel of rows and a stage in the team's packed A.
Unit* Worker::packed_left(Index row, Index rows, Index k, Index k_stage) const {
  const Engine& e = *team_.operands.engine;
  const Index units = packed_units(e, team_.problem.size.k) + team_.schedule.stages * e.left_tail;
  return team_.left + (row - team_.rows.begin) * units + (k / e.per_unit + k_stage * e.left_tail) * rows;
}

// Returns a packed panel of A. The first worker that needs the panel packs it; other workers wait for that worker.
const Unit* Worker::ensure_left_packed(const RecordedLoad& a, Index panel, Range rows) {
  const Engine& e = *team_.operands.engine;
  const Index first = a.rows.begin + rows.begin;
  Unit* const out = packed_left(first, rows.size, a.k.begin, stage);
  std::atomic<unsigned char>& packed = panel_state(row_block, panel, stage);
  if (packed.load(std::memory_order_acquire) == 2) return out;
  unsigned char expected = 0;
  if (!packed.compare_exchange_strong(expected, 1)) {
    while (packed.load(std::memory_order_acquire) != 2) pause_cpu();
    return out;
  }
  if (team_.schedule.skinny && !team_.schedule.pack_left) {
    if (e.skinny_left_packers.along_k != nullptr)
      run_packer(e.skinny_left_packers, *a.matrix,
                 {.source = element_address(*a.matrix, team_.batch, first, a.k.begin, team_.operands.left_bytes),
                  .stride = a.matrix->col_stride == 1 ? a.matrix->row_stride : a.matrix->col_stride,
                  .lanes = static_cast<int>(rows.size),
                  .width = static_cast<int>(ceil_div(rows.size, e.row_multiple) * e.row_multiple),
                  .k = a.k.size,
                  .out = out});
    else
      pack_skinny_rows(e, *a.matrix, team_.batch, team_.operands.left_bytes, rows.size,
                       choose_skinny_blocks(e, team_.operands, rows.size).packed, out);
    packed.store(2, std::memory_order_release);
    return out;
  }
  run_packer(e.left_packers, *a.matrix,
             {.source = element_address(*a.matrix, team_.batch, first, a.k.begin, team_.operands.left_bytes),
              .stride = a.matrix->col_stride == 1 ? a.matrix->row_stride : a.matrix->col_stride,
              .lanes = static_cast<int>(rows.size),
              .width = static_cast<int>(rows.size),
              .k = a.k.size,
              .out = out});
  packed.store(2, std::memory_order_release);
  return out;
}

// Packs a stage of B. B across k is packed four panels at a time, a few rows at a time. Panel by panel, each row would
// touch a new page for one or two lines, which costs a third of the bandwidth; with eight panels the stores share L1
// sets.
void Worker::pack_right(const RecordedLoad& b, Unit* out) const {
  const Engine& e = *team_.operands.engine;
  const int bytes = team_.operands.right_bytes;
  const Index units = packed_units(e, b.k.size),
              stride = b.matrix->col_stride == 1 ? b.matrix->row_stride : b.matrix->col_stride;
  const bool along_k = b.matrix->col_stride == 1;
  const Index columns_together = (along_k ? 1 : 4) * e.cols, k_block = along_k ? b.k.size : 16 * e.per_unit;
  for (Index group = 0; group < b.rows.size; group += columns_together)
    for (Index k = 0; k < b.k.size; k += k_block)
      for (Index j = group; j < std::min(group + columns_together, b.rows.size); j += e.cols) {
        run_packer(e.right_packers, *b.matrix,
                   {.source = element_address(*b.matrix, team_.batch, b.rows.begin + j, b.k.begin + k, bytes),
                    .stride = stride,
                    .lanes = static_cast<int>(std::min<Index>(e.cols, b.rows.size - j)),
                    .width = e.cols,
                    .k = std::min(k_block, b.k.size - k),
                    .out = out + j * units + k / e.per_unit * e.cols});
      }
}

// Packs a stage of a computed B whose columns are contiguous along k, from a buffer in the L1.
void Worker::pack_computed_columns(const RecordedLoad& b, Unit* out) const {
  const Engine& e = *team_.operands.engine;
  const ComputedOperand& operand = *b.matrix->computed;
  const int bytes = team_.operands.right_bytes;
  const Index units = packed_units(e, b.k.size), multiple = stage_multiple(e, *b.matrix);
  const Index k_block = std::max<Index>(max_copied_bytes / (e.cols * bytes) / multiple, 1) * multiple;
  char* const copied = static_cast<char*>(
      pool::thread_arenas().computed.ensure_size(static_cast<std::size_t>(e.cols * k_block * bytes)));
  for (Index j = 0; j < b.rows.size; j += e.cols)
    for (Index k = 0; k < b.k.size; k += k_block) {
      const Range columns{b.rows.begin + j, std::min<Index>(e.cols, b.rows.size - j)};
      const Range rows{b.k.begin + k, std::min(k_block, b.k.size - k)};
      operand.copy(operand, team_.batch, rows, columns, {copied, 1, 1, k_block});
      e.right_packers.along_k({.source = copied,
                               .stride = k_block,
                               .lanes = static_cast<int>(columns.size),
                               .width = e.cols,
                               .k = rows.size,
                               .out = out + j * units + k / e.per_unit * e.cols});
    }
}

// Packs a stage of a computed B whose rows are contiguous. If the operand can write units, B is written to its panels;
// else some rows of k for four panels are written to a buffer in the L1, and packed from there.
void Worker::pack_computed_rows(const RecordedLoad& b, Unit* out) const {
  const Engine& e = *team_.operands.engine;
  const ComputedOperand& operand = *b.matrix->computed;
  const int bytes = team_.operands.right_bytes;
  const Index units = packed_units(e, b.k.size), columns_together = 4 * e.cols, k_block = 16 * e.per_unit;
  const bool writes_pairs = operand.writes_pairs && e.per_unit == 2 && bytes == 2 && e.step_multiple == 1;
  if (e.right_in_place || writes_pairs)
    return operand.copy(operand, team_.batch, b.k, b.rows,
                        {out, e.cols * e.per_unit, e.cols, e.cols * units * e.per_unit, e.per_unit});
  char* const copied = static_cast<char*>(
      pool::thread_arenas().computed.ensure_size(static_cast<std::size_t>(columns_together * k_block * bytes)));
  for (Index group = 0; group < b.rows.size; group += columns_together)
    for (Index k = 0; k < b.k.size; k += k_block) {
      const Range columns{b.rows.begin + group, std::min(columns_together, b.rows.size - group)};
      const Range rows{b.k.begin + k, std::min(k_block, b.k.size - k)};
      operand.copy(operand, team_.batch, rows, columns, {copied, columns_together, columns_together, 0});
      for (Index j = 0; j < columns.size; j += e.cols)
        e.right_packers.across_k({.source = copied + j * bytes,
                                  .stride = columns_together,
                                  .lanes = static_cast<int>(std::min<Index>(e.cols, columns.size - j)),
                                  .width = e.cols,
                                  .k = rows.size,
                                  .out = out + (group + j) * units + k / e.per_unit * e.cols});
    }
}

// Returns the panels of a stage of B: packed by the worker, prepacked, or in place. Or the register block reads the
// stage in place for the first panel of A and packs it for the others meanwhile, which costs less than a separate pass.
Worker::RightPanels Worker::prepare_right_panels(const RecordedLoad& b, int right_part) {
  const Engine& e = *team_.operands.engine;
  const Index steps = packed_units(e, b.k.size);
  if (b.matrix->prepacked != nullptr) {
    const Index units = packed_units(e, team_.problem.size.k);
    const Unit* const all = static_cast<const Unit*>(b.matrix->prepacked);
    return {all + b.rows.begin * units + b.k.begin / e.per_unit * e.cols, e.cols * units, e.cols};
  }
  RightPanels in_place{reinterpret_cast<const Unit*>(element_address(*b.matrix, team_.batch, b.rows.begin, b.k.begin,
                                                                     team_.operands.right_bytes)),
                       e.cols, b.matrix->col_stride};
  if (!team_.schedule.pack_right) return in_place;
  RightSlot& slot = slots_[right_part];
  const bool is_packed = slot.matrix == b.matrix && slot.k == b.k.begin && slot.column == b.rows.begin;
  if (!is_packed && place_right(b, slot)) return {slot.data, e.cols, 0, slot.offsets};
  if (!is_packed) {
    slot.data = static_cast<Unit*>(pool::thread_arenas().right[right_part].ensure_size(
        sizeof(Unit) * ceil_div(b.rows.size, e.cols) * e.cols * steps));
    slot.matrix = b.matrix;
    slot.k = b.k.begin;
    slot.column = b.rows.begin;
    if (b.matrix->computed != nullptr) {
      b.matrix->computed->along_k ? pack_computed_columns(b, slot.data) : pack_computed_rows(b, slot.data);
    } else if (e.block_packs_right && team_.schedule.pack_left && b.matrix->row_stride == 1) {
      in_place.packed_out = slot.data;
      return in_place;
    } else {
      pack_right(b, slot.data);
    }
  }
  if (slot.offsets != nullptr) return {slot.data, e.cols, 0, slot.offsets};
  return {slot.data, e.cols * steps, e.cols};
}

// Places a stage of a computed B so that the register block reads it by offsets. Returns false if it must be packed.
bool Worker::place_right(const RecordedLoad& b, RightSlot& slot) const {
  const Engine& e = *team_.operands.engine;
  const ComputedOperand* const operand = b.matrix->computed;
  slot.offsets = nullptr;
  if (operand == nullptr || operand->place == nullptr || !e.indexes_right) return false;
  const PlacedRows rows = operand->place(*operand, team_.batch, b.k, b.rows);
  if (rows.data == nullptr) return false;
  slot = {static_cast<Unit*>(const_cast<void*>(rows.data)), b.matrix, rows.offsets, b.k.begin, b.rows.begin};
  return true;
}

std::size_t prepacked_bytes(const Matrix& b, const Engine& e) {
  return sizeof(Unit) * static_cast<std::size_t>(ceil_div(b.rows, e.cols) * e.cols * packed_units(e, b.cols));
}

void prepack_right(const Matrix& b, const Engine& e, int bytes, void* out) {
  const Index units = packed_units(e, b.cols);
  for (Index j = 0; j < b.rows; j += e.cols) {
    run_packer(e.right_packers, b,
               {.source = element_address(b, 0, j, 0, bytes),
                .stride = b.col_stride == 1 ? b.row_stride : b.col_stride,
                .lanes = static_cast<int>(std::min<Index>(e.cols, b.rows - j)),
                .width = e.cols,
                .k = b.cols,
                .out = static_cast<Unit*>(out) + j * units});
  }
}

// Multiplies few packed rows of A by a computed B along k. Copies some columns of a k block at a time to a buffer in
// the L1.
void Worker::multiply_skinny_computed(const SkinnyArgs& args, const RecordedLoad& b) const {
  const Engine& e = *team_.operands.engine;
  const ComputedOperand& operand = *b.matrix->computed;
  const int bytes = team_.operands.right_bytes;
  const Index k_block = choose_skinny_blocks(e, team_.operands, args.rows).copied;
  void* const copied =
      pool::thread_arenas().computed.ensure_size(static_cast<std::size_t>(skinny_copied_columns * k_block * bytes));
  SkinnyArgs part = args;
  part.b = copied;
  part.b_stride = k_block;
  for (Index j = 0; j < args.n; j += skinny_copied_columns) {
    part.n = std::min(skinny_copied_columns, args.n - j);
    part.c = static_cast<Unit*>(args.c) + j;
    for (Index k = 0; k < args.k; k += k_block) {
      part.k = std::min(k_block, args.k - k);
      part.a_by_rows = args.a_by_rows + k / e.per_unit * args.rows;
      part.accumulate = args.accumulate || k > 0;
      operand.copy(operand, team_.batch, {b.k.begin + k, part.k}, {b.rows.begin + j, part.n}, {copied, 1, 1, k_block});
      e.skinny_along_k(part);
    }
  }
}

void Worker::multiply_skinny(const SumsTarget& sums, const RecordedLoad& a, const RecordedLoad& b) {
  const Engine& e = *team_.operands.engine;
  const bool packed = b.matrix->prepacked != nullptr, along_k = !packed && b.matrix->col_stride == 1;
  SkinnyArgs args;
  args.rows = static_cast<int>(a.rows.size);
  args.k = a.k.size;
  args.n = b.rows.size;
  args.c = sums.data;
  args.c_stride = sums.stride;
  args.accumulate = sums.accumulate;
  args.b_in_l2 =
      team_.problem.size.k * team_.problem.size.n * team_.operands.right_bytes <= team_.operands.caches.l2 / 2;
  if (packed) {
    const RightPanels from = prepare_right_panels(b, 0);
    args.b = from.data;
    args.b_stride = from.stride;
    args.b_panel_stride = from.panel;
  } else {
    args.b = element_address(*b.matrix, team_.batch, b.rows.begin, b.k.begin, team_.operands.right_bytes);
    args.b_stride = along_k ? b.matrix->row_stride : b.matrix->col_stride;
    args.b_panel_stride = e.cols;
  }
  if (along_k) {
    args.a_by_rows = ensure_left_packed(a, 0, {0, a.rows.size});
    if (const ComputedOperand* const computed = b.matrix->computed; computed != nullptr) {
      if (!reads_blocks(e, *computed, args.rows)) return multiply_skinny_computed(args, b);
      const Index first = team_.batch * b.matrix->batch_stride + b.rows.begin * b.matrix->row_stride + b.k.begin;
      args.b = static_cast<const char*>(computed->blocks) + stored_bytes(computed->blocks_dtype, first);
      args.b_stride = stored_bytes(computed->blocks_dtype, b.matrix->row_stride);
      args.b_dtype = computed->blocks_dtype;
      return e.skinny_scaled(args);
    }
    return e.skinny_along_k(args);
  }
  args.a = ensure_left_packed(a, 0, {0, a.rows.size});
  if (e.needs_sum_scratch)  // reuses the memory of packed B
    args.scratch_sums =
        pool::thread_arenas().right[0].ensure_size(sizeof(Unit) * ceil_div(args.n, e.cols) * e.cols * args.rows);
  (packed ? e.skinny_packed : e.skinny_across_k)(args);
}

void Worker::multiply_operands(const SumsTarget& sums, const RecordedLoad& a, const RecordedLoad& b, int right_part) {
  if (team_.schedule.skinny) return multiply_skinny(sums, a, b);
  const Engine& e = *team_.operands.engine;
  const CpuSchedule& s = team_.schedule;
  const Index steps = packed_units(e, a.k.size);
  RightPanels from = prepare_right_panels(b, right_part);
  BlockArgs block;
  block.steps = steps;
  block.c_stride = sums.stride;
  block.rounded_stride = sums.rounded_stride;
  block.left_packed = s.pack_left;
  block.accumulate = sums.accumulate;
  if (e.release_tiles != nullptr) block.tile_shape = &shape_;
  block.a_stride = a.matrix->row_stride / e.per_unit;
  // An output of 32 MiB or more that is written once would only evict the operands from the caches.
  block.non_temporal = s.stages == 1 && !sums.accumulate && sums.rounded == nullptr &&
                       team_.problem.size.m * team_.problem.size.n >= min_streamed_elements &&
                       reinterpret_cast<std::uintptr_t>(sums.data) % 64 == 0 && sums.stride % 16 == 0;
  has_streamed_ |= block.non_temporal;
  const Index count = ceil_div(a.rows.size, s.panel_rows), grains = ceil_div(a.rows.size, e.row_multiple);
  const Index each = grains / count * e.row_multiple, more = grains % count;
  Range panel;
  for (Index p = 0; p < count; ++p) {
    panel = {panel.end(), std::min(each + (p < more ? e.row_multiple : 0), a.rows.size - panel.end())};
    block.rows = static_cast<int>(panel.size);
    block.a = s.pack_left
                  ? ensure_left_packed(a, p, panel)
                  : reinterpret_cast<const Unit*>(element_address(*a.matrix, team_.batch, a.rows.begin + panel.begin,
                                                                  a.k.begin, team_.operands.left_bytes));
    SumsTarget panel_sums = sums;
    panel_sums.data = static_cast<Unit*>(sums.data) + panel.begin * sums.stride;
    if (sums.rounded != nullptr) panel_sums.rounded += panel.begin * sums.rounded_stride;
    if (p > 0 && from.packed_out != nullptr) from = prepare_right_panels(b, right_part);
    multiply_column_panels(block, from, panel_sums, b.rows.size, {a, p, count});
  }
}

// Multiplies one panel of A with all panels of B: all full panels at once, then the partial one.
void Worker::multiply_column_panels(BlockArgs& block, const RightPanels& from, const SumsTarget& sums, Index columns,
                                    const LeftPanel& left) {
  const Engine& e = *team_.operands.engine;
  block.b_stride = from.stride;
  block.b_offsets = from.offsets;
  block.panel_stride = from.panel;
  block.packed_out_stride = e.cols * block.steps;
  const Index full_panels = columns / e.cols;
  for (Index column_panel = 0; column_panel * e.cols < columns;) {
    const Index j = column_panel * e.cols;
    block.panels = j == 0 && full_panels > 0 ? static_cast<int>(full_panels) : 1;
    block.cols = static_cast<int>(std::min<Index>(e.cols, columns - j));
    block.b = from.data + column_panel * from.panel;
    block.c = static_cast<Unit*>(sums.data) + j;
    block.rounded = sums.rounded != nullptr ? sums.rounded + j : nullptr;
    if (from.packed_out != nullptr) block.packed_out = from.packed_out + column_panel * block.packed_out_stride;
    // Two assignments, because copying prefetch_a to prefetch_b would wait for all earlier stores of sums.
    const char* const block_address = reinterpret_cast<const char*>(block.b);
    block.prefetch_a = {.base = block_address, .mask = 0};
    block.prefetch_b = {.base = block_address, .mask = 0};
    if (team_.schedule.pack_left)
      prefetch_left(block, left,
                    column_panel * (block.steps / 4) / PrefetchPlan::linear_steps * PrefetchPlan::linear_steps);
    if (next.right != nullptr) prefetch_right(block, panels_remaining - left.index, j);
    e.multiply_block(block);
    block.packed_out = nullptr;
    column_panel += block.panels;
  }
}

// Plans prefetches of the next panel of A, which may be in the next row block. Each column panel fetches a part.
void Worker::prefetch_left(BlockArgs& block, const LeftPanel& current, Index from) const {
  const Engine& e = *team_.operands.engine;
  const CpuSchedule& s = team_.schedule;
  const RecordedLoad& a = current.load;
  Range rows = a.rows, k = a.k;
  Index panel = current.index, count = current.count, block_of = row_block, stage_of = stage;
  if (++panel == count) {
    if (next.row_block < 0) return;
    const Range in_group = split_range(team_.rows.size, s.row_blocks, next.row_block, e.row_multiple);
    rows = {team_.rows.begin + in_group.begin, in_group.size};
    k = next.stage == stage
            ? a.k
            : split_range(team_.problem.size.k, s.stages, next.stage, stage_multiple(e, *team_.operands.right));
    panel = 0;
    count = ceil_div(rows.size, s.panel_rows);
    block_of = next.row_block;
    stage_of = next.stage;
  }
  const Range r = split_range(rows.size, count, panel, e.row_multiple);
  const Index steps = packed_units(e, k.size);
  if (panel_state(block_of, panel, stage_of).load(std::memory_order_relaxed) == 2) {
    if (from * 16 >= steps * r.size) return;
    const Unit* const at = packed_left(rows.begin + r.begin, r.size, k.begin, stage_of);
    block.prefetch_a = {.base = reinterpret_cast<const char*>(at),
                        .mask = 0,
                        .shift = 6,
                        .first_line = from,
                        .packed_bytes = steps * r.size * Index{sizeof(Unit)}};
  } else if (a.matrix->col_stride == 1) {
    if (from >= steps) return;
    const int bytes = team_.operands.left_bytes;
    block.prefetch_a = {.base = element_address(*a.matrix, team_.batch, rows.begin + r.begin, k.begin, bytes),
                        .stride = a.matrix->row_stride * bytes,
                        .mask = 15,
                        .shift = 2,
                        .first_line = from};
  }
}

// Plans prefetches of the next stage of B: a quarter during each of the last four panels of A in this stage.
void Worker::prefetch_right(BlockArgs& block, Index remaining_panels, Index column) const {
  const Engine& e = *team_.operands.engine;
  const Matrix& b = *next.right;
  // Parts are halves if a step of prepacked B is one line (16 columns), because four steps prefetch two lines.
  const Index parts = b.prepacked != nullptr ? e.cols / 8 : 4;
  const Index panel = std::min(parts, panels) - remaining_panels;
  if (panel < 0 || column >= next.columns.size) return;
  const int bytes = team_.operands.right_bytes;
  const Index part_steps = block.steps / parts;
  if (b.prepacked != nullptr) {
    const Index units = packed_units(e, team_.problem.size.k);
    const Unit* const at = static_cast<const Unit*>(b.prepacked) + (next.columns.begin + column) * units +
                           (next.k.begin / e.per_unit + panel * part_steps) * e.cols;
    block.prefetch_b = {.base = reinterpret_cast<const char*>(at),
                        .stride = 128,
                        .mask = -1,
                        .panel_bytes = e.cols * units * static_cast<Index>(sizeof(Unit))};
    return;
  }
  if (b.col_stride == 1) {
    block.prefetch_b = {.base = element_address(b, team_.batch, next.columns.begin + column, next.k.begin, bytes) +
                                panel * part_steps / 32 * 128,
                        .stride = b.row_stride * bytes,
                        .mask = 31,
                        .shift = 2,
                        .panel_bytes = e.cols * b.row_stride * bytes};
    return;
  }
  const Index row = panel * part_steps;
  if (row >= next.k.size) return;
  block.prefetch_b = {.base = element_address(b, team_.batch, next.columns.begin + column, next.k.begin + row, bytes),
                      .stride = b.col_stride * bytes,
                      .mask = -1,
                      .panel_bytes = e.cols * bytes};
}

}  // namespace ridge::tile::cpu
