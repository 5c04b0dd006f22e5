// Computes the gradients of attention on a CPU. Compiled once for each instruction set.
#include "ridge/ops/attention/backward.h"
#include "ridge/ops/attention/backward_run.h"
#include "ridge/ops/attention/model.h"
#include "ridge/ops/attention/place.h"

namespace ridge::ops::RIDGE_BODY_ISA {
namespace {

namespace cpu = tile::cpu;

constexpr int q_rows = cpu_backward_rows;
constexpr AttentionBackwardConfig on_cpu = {
    .m = cpu_backward_keys, .q = q_rows, .d = cpu_attention_width, .ordered = true, .consumers = 1};
using Kernel = AttentionBackward<on_cpu, tile::InLanes<float>>;

Kernel::Globals globals_of(const AttentionBackwardRun& run) {
  constexpr double log2_e = 1.4426950408889634;
  const AttentionProblem& p = run.problem.forward;
  Kernel::Globals g{};
  place(g.k, p.dtype, run.data.k, p.keys, p.width, p.key_heads, p.k);
  place(g.v, p.dtype, run.data.v, p.keys, p.width, p.key_heads, p.v);
  place(g.q, p.dtype, run.data.q, p.rows, p.width, p.heads, p.q);
  place(g.dout, p.dtype, run.data.dout, p.rows, p.width, p.heads, run.problem.dout);
  const std::int64_t of_head = run.tiles * 2 * q_rows;
  place(g.numbers, DType::f32, run.numbers, run.tiles, 2 * q_rows, p.heads, {p.heads * of_head, of_head, 2 * q_rows});
  place(g.dk, p.dtype, run.data.dk, p.keys, p.width, p.key_heads, run.problem.dk);
  place(g.dv, p.dtype, run.data.dv, p.keys, p.width, p.key_heads, run.problem.dv);
  g.dq = {run.sums, run.turns, static_cast<int>(run.tiles)};
  g.band = {static_cast<int>(p.low), static_cast<int>(p.high), static_cast<int>(p.keys)};
  g.rows = static_cast<int>(p.rows);
  g.scale = static_cast<float>(p.scale);
  g.scale_log2 = static_cast<float>(p.scale * log2_e);
  g.heads_of_keys = static_cast<int>(p.heads / p.key_heads);
  return g;
}

// Stores zero gradients for the item's keys, which no row sees.
void store_zeros(const tile::StepItem& item, const Kernel::Globals& g) {
  Kernel::State state{};
  state.dk.width = state.dv.width = static_cast<int>(g.k.cols);
  cpu::StepStore at{{item}};
  Kernel::store(at, state, g);
}

struct TilePlace {
  std::int64_t head;       // Index among all heads: outer * heads + `head_in_group`
  std::int64_t outer, in;  // Index of the group of heads; index of the head in it
  int row, rows;           // First row; number of rows
};
TilePlace place_of(const AttentionBackwardRun& run, std::int64_t tile) {
  const AttentionProblem& p = run.problem.forward;
  const std::int64_t head = tile / run.tiles, row = tile % run.tiles * q_rows;
  return {head, head / p.heads, head % p.heads, static_cast<int>(row),
          static_cast<int>(std::min<std::int64_t>(q_rows, p.rows - row))};
}
std::int64_t row_of(const HeadsLayout& x, const TilePlace& at, int r) {
  return at.outer * x.outer + at.in * x.head + (at.row + r) * x.row;
}

// Returns the dot product of two rows. Sixteen partial sums let the compiler vectorize the loop.
float product_of(const float* a, const float* b, int width) {
  constexpr int lanes = 16;
  float parts[lanes] = {}, sum = 0;
  int i = 0;
  for (; i + lanes <= width; i += lanes)
    for (int j = 0; j < lanes; ++j) parts[j] += a[i + j] * b[i + j];
  for (; i < width; ++i) sum += a[i] * b[i];
  for (const float part : parts) sum += part;
  return sum;
}

// Stores the dq of a tile, whose sums are in column-major panels of rows, row by row.
void store_rows(const AttentionBackwardRun& run, const TilePlace& at, const float* sums) {
  using Sums = Kernel::DQ;
  const AttentionProblem& p = run.problem.forward;
  const int width = static_cast<int>(p.width);
  const auto scale = static_cast<float>(p.scale);
  for (int r = 0; r < at.rows; ++r) {
    const float* const from = sums + r / Sums::panel * (Sums::panel * width) + r % Sums::panel;
    const std::int64_t to = row_of(run.problem.dq, at, r);
    for (int c = 0; c < width; ++c) cpu::narrow(from[c * Sums::panel] * scale, p.dtype, run.data.dq, to + c);
  }
}

}  // namespace

// Rows that see no key and rows after the last one get a log-sum of infinity, so that their weights are 0.
void prepare_attention_backward(const AttentionBackwardRun& run, std::int64_t begin, std::int64_t end) {
  constexpr float log2_e = 1.4426950408889634F;
  const AttentionProblem& p = run.problem.forward;
  const int width = static_cast<int>(p.width);
  const std::int64_t size = p.width * q_rows;
  std::fill(run.sums + begin * size, run.sums + end * size, 0.0F);
  std::fill(run.turns + begin, run.turns + end, 0);
  for (std::int64_t tile = begin; tile < end; ++tile) {
    const TilePlace at = place_of(run, tile);
    float* const numbers = run.numbers + tile * 2 * q_rows;
    std::fill_n(numbers, q_rows, INFINITY);
    std::fill_n(numbers + q_rows, q_rows, 0.0F);
    for (int r = 0; r < at.rows; ++r) {
      float o[cpu_attention_width], dout[cpu_attention_width];
      cpu::widen(run.data.o, p.dtype, row_of(p.o, at, r), width, o);
      cpu::widen(run.data.dout, p.dtype, row_of(run.problem.dout, at, r), width, dout);
      const float lse = run.data.lse[at.head * p.rows + at.row + r];
      if (lse == -INFINITY) continue;
      numbers[r] = lse * log2_e;
      numbers[q_rows + r] = product_of(o, dout, width);
    }
  }
}

void run_attention_backward(const AttentionBackwardRun& run) {
  const AttentionProblem& p = run.problem.forward;
  const Kernel::Globals g = globals_of(run);
  const SeenKeys seen = seen_keys(p);
  auto& memory = *new (run.memory) cpu::StepMemory<Kernel>;
  const tile::StepOrder order{.matrices = static_cast<int>(p.outer * p.key_heads),
                              .rows = static_cast<int>(p.keys),
                              .tile_rows = Kernel::config.m};
  for (;;) {
    const tile::StepItem item = order.item(run.next->fetch_add(1, std::memory_order_relaxed));
    if (!item.is_real) return;
    if (item.row < seen.end && item.row + Kernel::config.m > seen.first)
      cpu::run_item<Kernel>(item, memory, g);
    else
      store_zeros(item, g);
  }
}

void finish_attention_backward(const AttentionBackwardRun& run, std::int64_t begin, std::int64_t end) {
  for (std::int64_t tile = begin; tile < end; ++tile)
    store_rows(run, place_of(run, tile), run.sums + tile * run.problem.forward.width * q_rows);
}

std::size_t attention_backward_memory() { return sizeof(cpu::StepMemory<Kernel>); }

}  // namespace ridge::ops::RIDGE_BODY_ISA
