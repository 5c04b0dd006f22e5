// Computes attention items on one CPU thread, with tiles of type T. Included by files that are compiled for one
// instruction set.
#pragma once

#include <atomic>

#include "ridge/ops/attention/attention.h"
#include "ridge/ops/attention/cpu_run.h"

namespace ridge::ops {
namespace {

template <class T, int m> using CpuAttention =
    Attention<AttentionConfig{.m = m, .kv = cpu_attention_keys, .d = max_cpu_head_size, .consumers = 1}, T>;

// Restricts a view of packed sequences to rows `first` … `first + rows - 1`.
template <class View> void restrict_rows(View& view, DType dtype, std::int64_t first, std::int64_t rows) {
  if (view.data != nullptr)
    view.data = static_cast<const char*>(view.data) + first * view.row_stride * dtype_bits(dtype) / 8;
  view.rows = rows;
  view.outer_stride = 0;
}

// Restricts the views and the band to one of the ragged sequences.
void restrict_to_sequence(auto& g, const AttentionProblem& p, const AttentionData& data, int sequence) {
  int length = p.lengths && data.lengths != nullptr ? clamp_length(data.lengths[sequence]) : 0;
  if (p.packed) {
    const int* const rows = data.row_starts + sequence;
    g.lse.inner_stride = p.packed->rows;
    restrict_rows(g.q, p.dtype, rows[0], rows[1] - rows[0]);
    restrict_rows(g.o, p.dtype, rows[0], rows[1] - rows[0]);
    restrict_rows(g.lse, DType::f32, rows[0], rows[1] - rows[0]);
    if (!p.pages) {
      const int* const keys = data.key_starts + sequence;
      length = keys[1] - keys[0];
      restrict_rows(g.k, p.dtype, keys[0], length);
      restrict_rows(g.v, p.dtype, keys[0], length);
    }
  }
  if (p.lengths) g.band = g.band.for_length(length, length_dependence_of(p));
  g.k.rows = g.v.rows = g.band.keys;
  if (!p.pages) return;
  const std::int64_t pages_per_sequence = p.keys / p.pages->rows;
  for (auto* const view : {&g.k.page_table, &g.v.page_table})
    *view = {data.pages + sequence * pages_per_sequence, p.pages->rows, 0};
  g.k.page_table.page_stride = p.k.outer;
  g.v.page_table.page_stride = p.v.outer;
  g.k.outer_stride = g.v.outer_stride = 0;
}

template <class Kernel> void run_items(const AttentionRun& run) {
  const AttentionProblem& p = run.problem;
  typename Kernel::Globals g{};
  const AttentionData& data = run.data;
  set_view(g.q, p.dtype, data.q, p.rows, p.width, p.heads, p.q);
  set_view(g.k, p.dtype, data.k, p.keys, p.width, p.key_heads, p.k);
  set_view(g.v, p.dtype, data.v, p.keys, p.width, p.key_heads, p.v);
  set_view(g.o, p.dtype, data.o, p.rows, p.width, p.heads, p.o);
  set_view(g.lse, DType::f32, data.lse, p.rows, 1, p.heads, {p.heads * p.rows, p.rows, 1});
  set_scalar_args(g, p);
  const typename Kernel::Globals full_globals = g;
  auto& memory = *new (run.memory) tile::cpu::StepTiles<Kernel>;
  const tile::ItemOrder order{static_cast<int>(p.outer * p.heads), static_cast<int>(p.rows), Kernel::config.m, 1};
  for (;;) {
    const tile::StepItem item = order.item_at(run.next_item->fetch_add(1, std::memory_order_relaxed));
    if (!item.is_valid) return;
    if (has_ragged_sequences(p)) {
      g = full_globals;
      restrict_to_sequence(g, p, data, item.matrix / static_cast<int>(p.heads));
      if (item.row >= g.q.rows) continue;
    }
    tile::cpu::run_item<Kernel>(item, memory, g);
  }
}

template <class T> void run_with_type(const AttentionRun& x) {
  x.uses_tall_items ? run_items<CpuAttention<T, tall_item_rows>>(x) : run_items<CpuAttention<T, short_item_rows>>(x);
}
template <class T> constexpr std::size_t step_memory_bytes(bool uses_tall_items) {
  return uses_tall_items ? sizeof(tile::cpu::StepTiles<CpuAttention<T, tall_item_rows>>)
                         : sizeof(tile::cpu::StepTiles<CpuAttention<T, short_item_rows>>);
}

}  // namespace
}  // namespace ridge::ops
