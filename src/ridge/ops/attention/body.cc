// Attention on a CPU, compiled once for each instruction set.
#include <atomic>

#include "ridge/ops/attention/attention.h"
#include "ridge/ops/attention/run.h"

namespace ridge::ops::RIDGE_BODY_ISA {
namespace {

template <int m> using OnCpu =
    Attention<AttentionConfig{.m = m, .kv = cpu_attention_keys, .d = cpu_attention_width, .consumers = 1},
              tile::InLanes<float>>;

template <class View> void place(View& view, DType dtype, const void* data, std::int64_t rows, std::int64_t width,
                                 std::int64_t heads, const HeadsLayout& at) {
  view.data = data;
  view.rows = rows;
  view.cols = width;
  view.row_stride = at.row;
  view.inner = heads;
  view.inner_stride = at.head;
  view.outer_stride = at.outer;
  view.on_target.dtype = dtype;
}

template <class Kernel> void run(const AttentionRun& run) {
  const AttentionProblem& p = run.problem;
  typename Kernel::Globals g{};
  place(g.q, p.dtype, run.q, p.rows, p.width, p.heads, p.q);
  place(g.k, p.dtype, run.k, p.keys, p.width, p.key_heads, p.k);
  place(g.v, p.dtype, run.v, p.keys, p.width, p.key_heads, p.v);
  place(g.o, p.dtype, run.o, p.rows, p.width, p.heads, p.o);
  place(g.lse, DType::f32, run.lse, p.rows, 1, p.heads, {p.heads * p.rows, p.rows, 1});
  set_numbers(g, p);
  const Band all = g.band;
  auto& memory = *new (run.memory) tile::cpu::StepMemory<Kernel>;
  const tile::StepOrder order{static_cast<int>(p.outer * p.heads), static_cast<int>(p.rows), Kernel::config.m, 1};
  for (;;) {
    const tile::StepItem item = order.item(run.next->fetch_add(1, std::memory_order_relaxed));
    if (!item.is_real) return;
    if (p.lengths) {
      g.band = all.of(within_reach(run.lengths[item.matrix / p.heads]), moves_of(*p.lengths));
      g.k.rows = g.v.rows = g.band.keys;
    }
    tile::cpu::run_item<Kernel>(item, memory, g);
  }
}

}  // namespace

void run_attention(const AttentionRun& x) { x.tall ? run<OnCpu<tall_rows>>(x) : run<OnCpu<short_rows>>(x); }

std::size_t attention_memory(bool tall) {
  return tall ? sizeof(tile::cpu::StepMemory<OnCpu<tall_rows>>) : sizeof(tile::cpu::StepMemory<OnCpu<short_rows>>);
}

}  // namespace ridge::ops::RIDGE_BODY_ISA
