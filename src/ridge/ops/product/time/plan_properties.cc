#include "ridge/ops/product/time/plan_properties.h"

#include <algorithm>
#include <numeric>

#include "ridge/ops/product/closed_form.h"
#include "ridge/ops/product/layout.h"
#include "ridge/ops/product/operands.h"
#include "ridge/ops/product/register_loads/register_loads.h"
#include "ridge/ops/product/trace.h"
#include "ridge/ops/product/weight_only/weight_only.h"

namespace ridge::ops {
namespace {

double as_double(std::int64_t x) { return static_cast<double>(x); }
std::int64_t round_up_to_eight(std::int64_t x) { return (x + 7) / 8 * 8; }

MatrixLayout pad_to_eight(MatrixLayout x, std::int64_t rows, std::int64_t cols) {
  x = canonical_layout(x, rows, cols);
  (x.col_stride == 1 ? x.row_stride : x.col_stride) = round_up_to_eight(x.col_stride == 1 ? cols : rows);
  x.batch_stride = x.batch_stride == 0 ? 0 : round_up_to_eight(rows) * round_up_to_eight(cols);
  return x;
}

}  // namespace

double min_product_bytes(const MatmulProblem& p) {
  const auto of = [&](const MatrixLayout& x, std::int64_t r, std::int64_t c) {
    const double matrices = x.batch_stride == 0 ? 1 : as_double(p.batch);
    return matrices * as_double(r) * as_double(c) * bytes_per_element(x.dtype);
  };
  if (const auto& w = p.pixel_windows)
    return as_double(p.batch) * as_double(w->count_read_pixels() * w->channels + p.size.n * p.size.k) *
               dtype_bits(p.a.dtype) / 8 +
           of(p.d, p.size.m, p.size.n);
  // The elements of windows are read from the input of the convolution, and its groups share their weights.
  const double a =
      p.windows ? as_double(p.windows->groups) * as_double(p.size.m) * as_double(p.size.k) * dtype_bits(p.a.dtype) / 8
                : of(p.a, p.size.m, p.size.k);
  const double b = p.windows ? as_double(p.batch) * as_double(p.b.batch_stride) * dtype_bits(p.b.dtype) / 8
                             : of(p.b, p.size.k, p.size.n);
  return a + b + of(p.d, p.size.m, p.size.n);
}

MatmulProblem pad_to_eight(const MatmulProblem& p) {
  return {p.batch,
          {round_up_to_eight(p.size.m), round_up_to_eight(p.size.n), round_up_to_eight(p.size.k)},
          pad_to_eight(p.a, p.size.m, p.size.k),
          pad_to_eight(p.b, p.size.k, p.size.n),
          pad_to_eight(p.d, p.size.m, p.size.n)};
}

PlanProperties cpu_plan_properties(const MatmulProblem& problem, int threads) {
  const MatmulTraffic traffic = count_cpu_traffic(problem, threads);
  PlanProperties out{.work_items = traffic.items, .concurrent_items = choose_thread_count(problem, threads)};
  if (traffic.issued_flops > 0) out.outside_fraction = 1 - as_double(traffic.flops) / as_double(traffic.issued_flops);
  out.min_bytes = min_product_bytes(problem);
  return out;
}

namespace cuda {
namespace {

constexpr int full_line_bytes = 128, min_line_bytes = 16;

// Returns the number of blocks of the plan that run concurrently.
std::int64_t count_concurrent_blocks(const MatmulConfig& c, const MatmulPlan& plan, int multiprocessors) {
  if (plan.split_mode == tile::SplitMode::stream_k) return multiprocessors;
  const int cluster_blocks = plan.split_mode == tile::SplitMode::cluster_split_k ? plan.splits : c.cluster();
  return cluster_blocks * count_concurrent_clusters(cluster_blocks, multiprocessors);
}

}  // namespace

PlanProperties plan_properties(const MatmulProblem& problem, const MatmulPlan& plan, const DeviceNumbers& device) {
  PlanProperties out{.min_bytes = min_product_bytes(to_uniform_batch(problem))};
  out.work_items = plan.tiles * plan.splits;
  if (plan.path == MatmulPlan::Path::register_loads) {
    const RegisterLoadsConfig c = register_loads_configs[plan.config];
    out.concurrent_items = device.multiprocessors;
    out.outside_fraction = 1 - as_double(problem.batch) * as_double(problem.size.m) * as_double(problem.size.n) /
                                   (as_double(plan.tiles) * c.m * c.n);
  }
  if (plan.path == MatmulPlan::Path::weight_only) {
    const WeightOnlyTile tile = weight_only_tiles[plan.config];
    const bool is_left = is_narrow_weight(problem.a.dtype);
    const std::int64_t rows = is_left ? problem.size.n : problem.size.m,
                       lines = is_left ? problem.size.m : problem.size.n;
    out.concurrent_items = count_weight_only_blocks(count_columns(rows), device.multiprocessors);
    out.outside_fraction = 1 - as_double(problem.batch * rows) * as_double(lines) /
                                   (as_double(plan.tiles) * tile.lines * count_columns(rows));
  }
  if (plan.path != MatmulPlan::Path::tiles) return out;
  const MatmulConfig& c = sm90_kernel_configs[plan.config];
  out.concurrent_items = count_concurrent_blocks(c, plan, device.multiprocessors);
  if (plan.split_mode == tile::SplitMode::stream_k) out.work_items = out.concurrent_items;
  const double sums =
      as_double(problem.grouped ? 1 : problem.batch) * as_double(problem.size.m) * as_double(problem.size.n);
  out.outside_fraction = 1 - sums / (as_double(plan.tiles) * c.m * c.n);
  const TileProblem tiles = make_tile_problem({.problem = problem});
  const auto add = [&](const TileOperand& x, int operand, bool copied) {
    if (tiles.windows || is_block_scaled(x.dtype)) return;
    const std::int64_t matrices = x.batch_stride == 0 ? 1 : tiles.batch;
    const std::int64_t alignment = line_alignment(x);
    if (!copied && alignment >= full_line_bytes) return;
    out.unaligned_operands.push_back(
        {.operand = plan.d_transposed ? 1 - operand : operand,
         .line_stride_bytes = x.bytes(x.line_stride),
         .alignment = alignment,
         .copy_traffic_bytes = copied ? 2 * x.bytes(matrices * x.extent * tiles.size.k) : 0});
  };
  add(tiles.a, 0, plan.copy_a);
  add(tiles.b, 1, plan.copy_b);
  std::sort(out.unaligned_operands.begin(), out.unaligned_operands.end(),
            [](const PlanProperties::UnalignedOperand& x, const PlanProperties::UnalignedOperand& y) {
              return x.operand < y.operand;
            });
  out.result_line_bytes = tiles.d_line_stride * dtype_bits(problem.d.dtype) / 8;
  out.element_stores = out.result_line_bytes % 8 != 0;
  out.min_alignment = min_line_bytes;
  return out;
}

}  // namespace cuda
}  // namespace ridge::ops
