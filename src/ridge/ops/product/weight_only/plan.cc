// Chooses the tile and the splits of k of products with narrow weights, by a closed form.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "ridge/base/block_scale.h"
#include "ridge/base/ceil_div.h"
#include "ridge/ops/fitted.h"
#include "ridge/ops/product/closed_form.h"
#include "ridge/ops/product/layout.h"
#include "ridge/ops/product/time/plan_properties.h"
#include "ridge/ops/product/weight_only/weight_only.h"

namespace ridge::ops {

static Reason validate_weights_on_the_right(const MatmulProblem& p) {
  const DType weights = p.b.dtype;
  if (p.windows || p.pixel_windows || p.grouped)
    return fmt::format("b: expected 16-bit floats for windows or groups, found {}", dtype_name(weights));
  if (is_block_scaled(weights) && !has_integer_blocks(weights) && p.a.dtype != DType::bf16)
    return fmt::format("a: expected bf16 with {}, found {}", dtype_name(weights), dtype_name(p.a.dtype));
  if (p.size.m > cuda::max_weight_only_rows)
    return fmt::format("expected up to {} rows with {}, found {}", cuda::max_weight_only_rows, dtype_name(weights),
                       p.size.m);
  const MatrixLayout lines = canonical_layout(transpose_layout(p.b), p.size.n, p.size.k);
  if (lines.col_stride != 1)
    return fmt::format("{}: expected elements that are contiguous along k, found a stride of {}", dtype_name(weights),
                       lines.col_stride);
  if (std::max({p.batch, p.size.n, p.size.k}) > cuda::max_kernel_count)
    return fmt::format("expected sizes of at most {} with {}", cuda::max_kernel_count, dtype_name(weights));
  if (!is_block_scaled(weights)) return {};
  const std::int64_t multiple = std::max(dtype_info(weights).block, nibble_unit);
  if (p.size.k % multiple != 0)
    return fmt::format("{}: expected k in multiples of {} elements, found {}", dtype_name(weights), multiple, p.size.k);
  return validate_packed_lines(dtype_name(weights), lines, p.size.n, p.size.k, p.batch);
}

Reason validate_narrow_weights(const MatmulProblem& p) {
  if (!has_narrow_weights(p))
    return fmt::format("expected narrow weights, such as int8, e4m3 or mxfp4, with bf16 or f16, found {} * {}",
                       dtype_name(p.a.dtype), dtype_name(p.b.dtype));
  if (is_narrow_weight(p.b.dtype)) return validate_weights_on_the_right(p);
  if (p.grouped) return fmt::format("a: expected 16-bit floats for windows or groups, found {}", dtype_name(p.a.dtype));
  MatmulProblem transposed = transpose_problem(p);
  transposed.pixel_windows = p.pixel_windows;
  transposed.windows = p.windows;
  return validate_weights_on_the_right(transposed);
}

Reason reason_to_convert_weights(const MatmulProblem& p) {
  if (auto reason = validate_narrow_weights(p)) return reason;
  const bool is_left = is_narrow_weight(p.a.dtype);
  const MatrixLayout lines =
      canonical_layout(is_left ? p.a : transpose_layout(p.b), is_left ? p.size.m : p.size.n, p.size.k);
  const cuda::TileOperand weights{.dtype = lines.dtype,
                                  .extent = is_left ? p.size.m : p.size.n,
                                  .k = p.size.k,
                                  .line_stride = lines.row_stride,
                                  .batch_stride = lines.batch_stride};
  if (weights.extent < 8) return fmt::format("expected at least 8 lines of weights, found {}", weights.extent);
  if (!cuda::can_engine_read_weights(weights, p.batch))
    return fmt::format("{}: expected lines and matrices at multiples of 16 bytes, found strides of {} and {} bytes",
                       dtype_name(lines.dtype), weights.bytes(lines.row_stride), weights.bytes(lines.batch_stride));
  const std::int64_t scale_bytes = stored_bytes(lines.dtype, p.size.k) - weights.bytes(p.size.k);
  if (is_block_scaled(lines.dtype) && scale_bytes % 4 != 0)
    return fmt::format("{}: expected a multiple of 4 bytes of scales for each line, found {}", dtype_name(lines.dtype),
                       scale_bytes);
  return {};
}

namespace cuda {
namespace {

double to_double(std::int64_t x) { return static_cast<double>(x); }

struct NarrowOperands {
  TileOperand weights, x;
};
NarrowOperands find_operands(const TileProblem& t) {
  return is_narrow_weight(t.a.dtype) ? NarrowOperands{t.a, t.b} : NarrowOperands{t.b, t.a};
}

// Returns the cycles of a block for 128 elements of k of its tile. All groups of warps work at the same time.
double count_part_cycles(DType weights, int columns) {
  const KernelConstants& f = kernel_constants();
  double out = columns / 8 * f.weight_group_cycles;
  if (columns > 16) out += f.weight_wgmma_cycles;
  if (has_integer_blocks(weights))
    return out + f.weight_part_int4_cycles + 128.0 / dtype_info(weights).block * f.weight_block_cycles;
  if (weights == DType::mxfp8) return out + f.weight_part_mxfp8_cycles;
  return out + (dtype_bits(weights) == 4 ? f.weight_part_e2m1_cycles : f.weight_part_8bit_cycles);
}

// Returns the seconds from the end of the previous kernel to the end of this one. Loads, the conversion of weights and
// products overlap; each tile of weights reads all activations from the L2.
double predict_seconds(const TileProblem& t, double min_bytes, const WeightOnlyTile& tile, int splits,
                       const DeviceNumbers& device) {
  const KernelConstants& f = kernel_constants();
  const auto [weights, x] = find_operands(t);
  const int columns = count_columns(x.extent);
  const std::int64_t line_tiles = ceil_div(weights.extent, std::int64_t{tile.lines}),
                     stage_k = tile.stage_k(weight_box(weights.dtype), columns);
  const std::int64_t stages = ceil_div(t.size.k, stage_k), items = t.batch * line_tiles * splits;
  const double waves = to_double(ceil_div(items, count_weight_only_blocks(columns, device.multiprocessors)));
  const double parts = to_double(ceil_div(stages, std::int64_t{splits}) * weight_box(weights.dtype).k) / 128;
  const double multiply_s = waves * parts * count_part_cycles(weights.dtype, columns) / device.busy_clock_hz;
  const double x_bytes = to_double(t.batch * line_tiles) * to_double(x.extent * t.size.k) * operand_bytes(x.dtype);
  const double wait_s = (f.weight_wait_cycles + (splits - 1) * f.weight_split_cycles) / device.clock_hz;
  return device.launch_s + wait_s +
         std::max({min_bytes / device.memory_bytes_per_s, x_bytes / (f.weight_activation_share * device.l2_bytes_per_s),
                   multiply_s});
}

// Returns the fastest plan of a tile, or nullopt if its ring has too few stages.
std::optional<MatmulPlan> choose_splits(const TileProblem& t, double min_bytes, int config,
                                        const DeviceNumbers& device) {
  const WeightOnlyTile tile = weight_only_tiles[config];
  const auto [weights, x] = find_operands(t);
  const int columns = count_columns(x.extent);
  if (tile.count_stages(weight_box(weights.dtype), columns) < min_stages) return std::nullopt;
  const std::int64_t line_tiles = ceil_div(weights.extent, std::int64_t{tile.lines});
  if (line_tiles > max_kernel_count / t.batch) return std::nullopt;
  MatmulPlan best{MatmulPlan::Path::weight_only, config, t.d_transposed};
  best.tiles = line_tiles * t.batch;
  const std::int64_t stages = ceil_div(t.size.k, std::int64_t{tile.stage_k(weight_box(weights.dtype), columns)});
  const std::int64_t resident = weight_only_block(columns).resident_blocks,
                     slots = count_weight_only_blocks(columns, device.multiprocessors);
  for (int splits = 1; splits <= tile::max_cluster_splits; ++splits) {
    const std::int64_t blocks = best.tiles * splits;
    const bool has_clusters = best.tiles <= resident * count_concurrent_clusters(splits, device.multiprocessors);
    if (splits > 1 && (stages < splits || !has_clusters)) break;
    const double seconds = predict_seconds(t, min_bytes, tile, splits, device);
    if (splits > 1 && best.predicted_s <= seconds) continue;
    best.splits = splits;
    best.predicted_s = seconds;
    best.blocks = static_cast<int>(std::min(blocks, slots));
    best.waves = ceil_div(blocks, slots);
  }
  if (best.splits > 1) best.split_mode = tile::SplitMode::cluster_split_k;
  return best;
}

}  // namespace

double predict_weight_only_seconds(const MatmulCall& call, int config, int splits, const DeviceNumbers& device) {
  return predict_seconds(make_tile_problem(call), min_product_bytes(call.problem),
                         weight_only_tiles[static_cast<std::size_t>(config)], splits, device);
}

bool can_engine_read_weights(const TileOperand& x, std::int64_t batch) {
  const auto is_aligned = [&](std::int64_t elements) {
    const std::int64_t bits = elements * dtype_bits(x.dtype);
    return bits % 128 == 0 && bits / 8 < std::int64_t{1} << 39;
  };
  return reinterpret_cast<std::uintptr_t>(x.data) % 16 == 0 && (x.extent <= 1 || is_aligned(x.line_stride)) &&
         (batch == 1 || is_aligned(x.batch_stride)) && (!is_block_scaled(x.dtype) || is_aligned(x.k));
}

std::vector<MatmulPlan> list_weight_only_plans(const MatmulCall& call, const DeviceNumbers& device) {
  std::vector<MatmulPlan> out;
  const MatmulProblem& p = call.problem;
  if (validate_narrow_weights(p) || p.batch == 0 || p.size.m == 0 || p.size.n == 0) return out;
  const TileProblem t = make_tile_problem(call);
  const double min_bytes = min_product_bytes(p);
  for (int config = 0; config < static_cast<int>(weight_only_tiles.size()); ++config)
    if (const auto plan = choose_splits(t, min_bytes, config, device)) out.push_back(*plan);
  std::stable_sort(out.begin(), out.end(),
                   [](const MatmulPlan& x, const MatmulPlan& y) { return x.predicted_s < y.predicted_s; });
  return out;
}

}  // namespace cuda
}  // namespace ridge::ops
