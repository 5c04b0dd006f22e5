// Chooses the tile and the splits of k of products with operands loaded through registers, by a closed form.
#include <algorithm>
#include <limits>
#include <optional>

#include "ridge/base/ceil_div.h"
#include "ridge/ops/fitted.h"
#include "ridge/ops/product/closed_form.h"
#include "ridge/ops/product/register_loads/register_loads.h"
#include "ridge/ops/product/time/plan_properties.h"

namespace ridge::ops::cuda {
namespace {

using Config = RegisterLoadsConfig;

constexpr std::int64_t max_waves_of_splits = 2;

double to_double(std::int64_t x) { return static_cast<double>(x); }

// Returns the cycles to load a group of four elements in a stage and to write its parts. Groups of 16-bit elements take
// as long with any alignment, since the wait for memory dominates.
double load_cycles(const TileOperand& x, std::int64_t batch) {
  const KernelConstants& f = kernel_constants();
  const double transposed = x.major == tile::Major::k ? 0 : f.register_transpose_cycles;
  if (x.dtype == DType::tf32) return f.tf32_load_cycles + transposed;
  if (x.dtype != DType::f32) return f.register_load_cycles + transposed;
  const bool is_aligned = choose_register_loads(x, batch) == RegisterLoads::vectors;
  return f.f32_load_cycles + transposed + (is_aligned ? 0 : f.f32_unaligned_cycles);
}

// Returns the cycles of a stage. A product of 64 x n x 16 elements takes n / 2 cycles of the tensor cores, but at least
// 16 to read its left operand. A ring of two stages is loaded and multiplied in turn.
double stage_cycles(const Config& c, const TileProblem& t, bool swap) {
  const DType dtype = t.a.dtype;
  const TileOperand &lines = swap ? t.b : t.a, &others = swap ? t.a : t.b;
  const double multiply = Config::products(dtype) * Config::k / 16.0 * Config::m / 64.0 * std::max(c.n / 2, 16);
  // Groups of four elements that a thread loads
  const double load =
      Config::m / 16.0 * load_cycles(lines, t.batch) + std::max(c.n / 16, 1) * load_cycles(others, t.batch);
  return std::max({multiply, load, ring_stages(c.n, dtype) == 2 ? (multiply + load) / 2 : 0});
}

std::int64_t count_tiles(const TileProblem& t, const RegisterLoadsChoice& x) {
  const std::int64_t rows = x.swap ? t.size.n : t.size.m, cols = x.swap ? t.size.m : t.size.n;
  return ceil_div(rows, std::int64_t{Config::m}) * ceil_div(cols, std::int64_t{register_loads_configs[x.config].n});
}

double predict_seconds(const TileProblem& t, double min_bytes, const RegisterLoadsChoice& x,
                       const DeviceNumbers& device) {
  const KernelConstants& f = kernel_constants();
  const Config c = register_loads_configs[x.config];
  const std::int64_t stages = ceil_div(t.size.k, std::int64_t{Config::k}),
                     items = t.batch * count_tiles(t, x) * x.splits;
  const double waves = to_double(ceil_div(items, std::int64_t{device.multiprocessors}));
  const double busy =
      waves * (to_double(ceil_div(stages, x.splits)) * stage_cycles(c, t, x.swap) + f.register_item_cycles);
  double s = device.launch_s + std::max(busy / device.busy_clock_hz, min_bytes / device.memory_bytes_per_s);
  const double sums_bytes = sizeof(float) * to_double(t.batch * t.size.m) * to_double(t.size.n);  // Sums of one split
  if (x.splits > 1)
    s += f.register_split_cycles / device.clock_hz + 2 * to_double(x.splits) * sums_bytes / device.l2_bytes_per_s;
  return s;
}

// Returns the plan with the fastest number of splits, or nullopt if the kernel cannot count its stages.
std::optional<MatmulPlan> choose_splits(const TileProblem& t, double min_bytes, int config, bool swap,
                                        std::size_t workspace_bytes, const DeviceNumbers& device) {
  const std::int64_t stages = ceil_div(t.size.k, std::int64_t{Config::k}), multiprocessors = device.multiprocessors;
  const double tiles = to_double(t.batch) * to_double(count_tiles(t, {config, swap}));
  if (tiles * to_double(stages) > to_double(max_kernel_count)) return std::nullopt;
  MatmulPlan best{MatmulPlan::Path::register_loads, config, t.d_transposed};
  best.swapped_tile = swap;
  best.tiles = static_cast<std::int64_t>(tiles);
  best.predicted_s = std::numeric_limits<double>::infinity();
  for (std::int64_t splits = 1; splits <= stages; ++splits) {
    const double sums = to_double(splits * t.batch * t.size.m) * to_double(split_row_floats(t)) * sizeof(float);
    const auto bytes = splits > 1 ? static_cast<std::size_t>(sums) + device::counter_bytes : 0;
    if (splits > 1 && (best.tiles * splits > max_waves_of_splits * multiprocessors || bytes > workspace_bytes)) break;
    const double seconds = predict_seconds(t, min_bytes, {config, swap, splits}, device);
    if (best.predicted_s <= seconds) continue;
    best.splits = static_cast<int>(splits);
    best.workspace_bytes = bytes;
    best.predicted_s = seconds;
  }
  best.waves = ceil_div(best.tiles * best.splits, multiprocessors);
  best.blocks = static_cast<int>(std::min(best.tiles * best.splits, multiprocessors));
  return best;
}

}  // namespace

double predict_register_loads_seconds(const MatmulCall& call, const RegisterLoadsChoice& choice,
                                      const DeviceNumbers& device) {
  return predict_seconds(make_tile_problem(call), min_product_bytes(call.problem), choice, device);
}

RegisterLoads choose_register_loads(const TileOperand& x, std::int64_t batch) {
  const std::int64_t matrices = batch > 1 ? x.bytes(x.batch_stride) : 0;
  const auto bits = reinterpret_cast<std::uintptr_t>(x.data) |
                    static_cast<std::uintptr_t>(x.bytes(x.line_stride) | x.bytes(x.contiguous_extent()) | matrices);
  const auto are_aligned = [&](int elements) { return bits % static_cast<unsigned>(x.bytes(elements)) == 0; };
  if (are_aligned(4)) return RegisterLoads::vectors;
  return operand_bytes(x.dtype) == 2 && are_aligned(2) ? RegisterLoads::pairs : RegisterLoads::elements;
}

std::int64_t split_row_floats(const TileProblem& t) { return ceil_div(t.size.n, std::int64_t{4}) * 4; }

std::vector<MatmulPlan> list_register_loads_plans(const MatmulCall& call, std::size_t workspace_bytes,
                                                  const DeviceNumbers& device) {
  const TileProblem t = make_tile_problem(call);
  const std::int64_t largest = std::max({t.batch, t.size.m, t.size.n, t.size.k});
  std::vector<MatmulPlan> out;
  const auto suits_tiles = [&](const TileOperand& x) {
    const bool is_in_order = x.major == tile::Major::k || operand_bytes(x.dtype) == 2;
    return is_in_order && can_copy_engine_read(x, t.batch) && !is_narrow(x);
  };
  if (t.a.dtype != DType::f32 && t.size.k > Config::k && suits_tiles(t.a) && suits_tiles(t.b)) return out;
  const bool is_loaded = StoredFloats::contains(t.a.dtype) || t.a.dtype == DType::tf32;
  if (!is_loaded || t.grouped || t.windows || t.batch == 0 || t.size.m == 0 || t.size.n == 0 || t.size.k == 0 ||
      largest > max_kernel_count)
    return out;
  const double min_bytes = min_product_bytes(call.problem);
  for (int config = 0; config < static_cast<int>(register_loads_configs.size()); ++config)
    for (const bool swap : {false, true})
      if (const auto plan = choose_splits(t, min_bytes, config, swap, workspace_bytes, device)) out.push_back(*plan);
  std::stable_sort(out.begin(), out.end(),
                   [](const MatmulPlan& x, const MatmulPlan& y) { return x.predicted_s < y.predicted_s; });
  return out;
}

}  // namespace ridge::ops::cuda
