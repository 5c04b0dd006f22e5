#include "ridge/ops/product/time/facts.h"

#include <algorithm>
#include <numeric>

#include "ridge/ops/product/closed_form.h"
#include "ridge/ops/product/layout.h"
#include "ridge/ops/product/operands.h"
#include "ridge/ops/product/trace.h"

namespace ridge::ops {
namespace {

double real(std::int64_t x) { return static_cast<double>(x); }
std::int64_t to_eight(std::int64_t x) { return (x + 7) / 8 * 8; }

MatrixLayout padded_to_eight(MatrixLayout x, std::int64_t rows, std::int64_t cols) {
  x = settled(x, rows, cols);
  (x.col_stride == 1 ? x.row_stride : x.col_stride) = to_eight(x.col_stride == 1 ? cols : rows);
  x.batch_stride = x.batch_stride == 0 ? 0 : to_eight(rows) * to_eight(cols);
  return x;
}

}  // namespace

double product_bytes(const MatmulProblem& p) {
  const auto of = [&](const MatrixLayout& x, std::int64_t r, std::int64_t c) {
    const double matrices = x.batch_stride == 0 ? 1 : real(p.batch);
    return matrices * real(r) * real(c) * bits(x.dtype) / 8;
  };
  return of(p.a, p.m, p.k) + of(p.b, p.k, p.n) + of(p.d, p.m, p.n);
}

MatmulProblem padded_to_eight(const MatmulProblem& p) {
  return {p.batch,
          to_eight(p.m),
          to_eight(p.n),
          to_eight(p.k),
          padded_to_eight(p.a, p.m, p.k),
          padded_to_eight(p.b, p.k, p.n),
          padded_to_eight(p.d, p.m, p.n)};
}

PlanFacts cpu_facts(const MatmulProblem& problem, int threads) {
  const MatmulTraffic traffic = trace_cpu(problem, threads);
  PlanFacts out{.pieces = traffic.items, .at_once = threads_for(problem, threads)};
  if (traffic.issued_flops > 0) out.beyond_edges = 1 - real(traffic.flops) / real(traffic.issued_flops);
  out.least_bytes = product_bytes(problem);
  return out;
}

namespace cuda {
namespace {

constexpr int whole_line = 128, least_line = 16;

// Returns the number of blocks of the plan that run concurrently.
std::int64_t at_once(const MatmulConfig& c, const MatmulPlan& plan, int multiprocessors) {
  if (plan.split_mode == tile::SplitMode::stream_k) return multiprocessors;
  const int together = plan.split_mode == tile::SplitMode::cluster_split_k ? plan.splits : c.cluster();
  return together * clusters_at_once(together, multiprocessors);
}

// Returns the alignment of an operand's lines in bytes, up to 128.
std::int64_t line_start(const TileOperand& x) { return std::gcd<std::int64_t>(x.line * 2, whole_line); }

}  // namespace

PlanFacts facts(const MatmulProblem& problem, const MatmulPlan& plan, const DeviceNumbers& device) {
  PlanFacts out{.least_bytes = product_bytes(alike(problem))};
  if (plan.path != MatmulPlan::Path::tiles) return out;
  const MatmulConfig& c = sm90_menu[static_cast<std::size_t>(plan.config)];
  out.pieces = plan.tiles * plan.splits;
  out.at_once = at_once(c, plan, device.multiprocessors);
  if (plan.split_mode == tile::SplitMode::stream_k) out.pieces = out.at_once;
  const double sums = real(problem.grouped ? 1 : problem.batch) * real(problem.m) * real(problem.n);
  out.beyond_edges = 1 - sums / (real(plan.tiles) * c.m * c.n);
  const TileProblem tiles = tile_problem({.problem = problem});
  const auto add = [&](const TileOperand& x, int operand, bool copied) {
    const std::int64_t matrices = x.batch_stride == 0 ? 1 : tiles.batch;
    const std::int64_t start = line_start(x);
    if (!copied && start >= whole_line) return;
    out.lines.push_back({.operand = plan.exchanged ? 1 - operand : operand,
                         .bytes = x.line * 2,
                         .start = start,
                         .copied_bytes = copied ? 4 * matrices * x.extent * tiles.k : 0});
  };
  add(tiles.a, 0, plan.copy_a);
  add(tiles.b, 1, plan.copy_b);
  std::sort(out.lines.begin(), out.lines.end(),
            [](const PlanFacts::Lines& x, const PlanFacts::Lines& y) { return x.operand < y.operand; });
  out.result_line_bytes = tiles.d_line * bits(problem.d.dtype) / 8;
  out.single_stores = out.result_line_bytes % 8 != 0;
  out.least_line = least_line;
  return out;
}

}  // namespace cuda
}  // namespace ridge::ops
