// Computes the gradients of attention on a CPU. Compiled once for each instruction set.
#include "ridge/ops/attention/backward.h"
#include "ridge/ops/attention/cpu_run.h"
#include "ridge/ops/attention/model.h"

namespace ridge::ops::RIDGE_BODY_ISA {
namespace {

namespace cpu = tile::cpu;

constexpr int q_rows = cpu_backward_rows;
constexpr AttentionBackwardConfig cpu_config = {
    .m = cpu_backward_keys, .q = q_rows, .d = max_cpu_head_size, .ordered = true, .consumers = 1};
using CpuBackwardKernel = AttentionBackward<cpu_config, tile::ComputeAs<float>>;

CpuBackwardKernel::Globals make_globals(const AttentionBackwardRun& run) {
  constexpr double log2_e = 1.4426950408889634;
  const AttentionProblem& p = run.problem.forward;
  CpuBackwardKernel::Globals g{};
  set_view(g.k, p.dtype, run.data.k, p.keys, p.width, p.key_heads, p.k);
  set_view(g.v, p.dtype, run.data.v, p.keys, p.width, p.key_heads, p.v);
  set_view(g.q, p.dtype, run.data.q, p.rows, p.width, p.heads, p.q);
  set_view(g.dout, p.dtype, run.data.dout, p.rows, p.width, p.heads, run.problem.dout);
  const std::int64_t floats_per_head = run.tiles_per_head * 2 * q_rows;
  set_view(g.row_stats, DType::f32, run.row_stats, run.tiles_per_head, 2 * q_rows, p.heads,
           {p.heads * floats_per_head, floats_per_head, 2 * q_rows});
  set_view(g.dk, p.dtype, run.data.dk, p.keys, p.width, p.key_heads, run.problem.dk);
  set_view(g.dv, p.dtype, run.data.dv, p.keys, p.width, p.key_heads, run.problem.dv);
  g.dq = {run.dq_sums, run.add_counts, static_cast<int>(run.tiles_per_head)};
  g.band = {static_cast<int>(p.low), static_cast<int>(p.high), static_cast<int>(p.keys)};
  g.rows = static_cast<int>(p.rows);
  g.scale = static_cast<float>(p.scale);
  g.scale_log2 = static_cast<float>(p.scale * log2_e);
  g.heads_per_key_head = static_cast<int>(p.heads / p.key_heads);
  return g;
}

// Stores zero dk and dv for the item's keys, which no row sees.
void store_zeros(const tile::StepItem& item, const CpuBackwardKernel::Globals& g) {
  CpuBackwardKernel::State state{};
  state.dk.width = state.dv.width = static_cast<int>(g.k.cols);
  cpu::CpuStepStore at{{item}};
  CpuBackwardKernel::store(at, state, g);
}

struct RowTilePosition {
  std::int64_t head;                  // Index among all heads: outer * heads + `head_in_group`
  std::int64_t outer, head_in_group;  // Index of the group of heads; index of the head in it
  int row, rows;                      // First row; number of rows
};
RowTilePosition locate_row_tile(const AttentionBackwardRun& run, std::int64_t tile) {
  const AttentionProblem& p = run.problem.forward;
  const std::int64_t head = tile / run.tiles_per_head, row = tile % run.tiles_per_head * q_rows;
  return {head, head / p.heads, head % p.heads, static_cast<int>(row),
          static_cast<int>(std::min<std::int64_t>(q_rows, p.rows - row))};
}
std::int64_t row_offset(const HeadsLayout& x, const RowTilePosition& at, int r) {
  return at.outer * x.outer + at.head_in_group * x.head + (at.row + r) * x.row;
}

// Returns the dot product of two rows. Sixteen partial sums let the compiler vectorize the loop.
float dot_product(const float* a, const float* b, int width) {
  constexpr int lanes = 16;
  float partial_sums[lanes] = {}, sum = 0;
  int i = 0;
  for (; i + lanes <= width; i += lanes)
    for (int j = 0; j < lanes; ++j) partial_sums[j] += a[i + j] * b[i + j];
  for (; i < width; ++i) sum += a[i] * b[i];
  for (const float partial_sum : partial_sums) sum += partial_sum;
  return sum;
}

// Scales, rounds and stores the dq of a row tile. Its sums are in panels of rows, each panel column-major.
void store_dq(const AttentionBackwardRun& run, const RowTilePosition& at, const float* sums) {
  using DqSums = CpuBackwardKernel::DQ;
  const AttentionProblem& p = run.problem.forward;
  const int width = static_cast<int>(p.width);
  const auto scale = static_cast<float>(p.scale);
  for (int r = 0; r < at.rows; ++r) {
    const float* const source = sums + r / DqSums::panel * (DqSums::panel * width) + r % DqSums::panel;
    const std::int64_t to = row_offset(run.problem.dq, at, r);
    for (int c = 0; c < width; ++c) cpu::store_rounded(source[c * DqSums::panel] * scale, p.dtype, run.data.dq, to + c);
  }
}

}  // namespace

// Rows without visible keys and rows after the last row get a log-sum-exp of infinity, so that their weights are 0.
void prepare_attention_backward(const AttentionBackwardRun& run, std::int64_t begin, std::int64_t end) {
  constexpr float log2_e = 1.4426950408889634F;
  const AttentionProblem& p = run.problem.forward;
  const int width = static_cast<int>(p.width);
  const std::int64_t size = p.width * q_rows;
  std::fill(run.dq_sums + begin * size, run.dq_sums + end * size, 0.0F);
  std::fill(run.add_counts + begin, run.add_counts + end, 0);
  for (std::int64_t tile = begin; tile < end; ++tile) {
    const RowTilePosition at = locate_row_tile(run, tile);
    float* const row_stats = run.row_stats + tile * 2 * q_rows;
    std::fill_n(row_stats, q_rows, INFINITY);
    std::fill_n(row_stats + q_rows, q_rows, 0.0F);
    for (int r = 0; r < at.rows; ++r) {
      float o[max_cpu_head_size], dout[max_cpu_head_size];
      cpu::widen_row(run.data.o, p.dtype, row_offset(p.o, at, r), width, o);
      cpu::widen_row(run.data.dout, p.dtype, row_offset(run.problem.dout, at, r), width, dout);
      const float lse = run.data.lse[at.head * p.rows + at.row + r];
      if (lse == -INFINITY) continue;
      row_stats[r] = lse * log2_e;
      row_stats[q_rows + r] = dot_product(o, dout, width);
    }
  }
}

void run_attention_backward(const AttentionBackwardRun& run) {
  const AttentionProblem& p = run.problem.forward;
  const CpuBackwardKernel::Globals g = make_globals(run);
  const VisibleKeys visible = find_visible_keys(p);
  auto& memory = *new (run.memory) cpu::StepTiles<CpuBackwardKernel>;
  const tile::ItemOrder order{.matrices = static_cast<int>(p.outer * p.key_heads),
                              .rows = static_cast<int>(p.keys),
                              .tile_rows = CpuBackwardKernel::config.m};
  for (;;) {
    const tile::StepItem item = order.item_at(run.next_item->fetch_add(1, std::memory_order_relaxed));
    if (!item.is_valid) return;
    if (item.row < visible.end && item.row + CpuBackwardKernel::config.m > visible.first)
      cpu::run_item<CpuBackwardKernel>(item, memory, g);
    else
      store_zeros(item, g);
  }
}

void finish_attention_backward(const AttentionBackwardRun& run, std::int64_t begin, std::int64_t end) {
  for (std::int64_t tile = begin; tile < end; ++tile)
    store_dq(run, locate_row_tile(run, tile), run.dq_sums + tile * run.problem.forward.width * q_rows);
}

std::size_t backward_scratch_bytes() { return sizeof(cpu::StepTiles<CpuBackwardKernel>); }

}  // namespace ridge::ops::RIDGE_BODY_ISA
