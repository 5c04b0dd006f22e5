#include "ridge/ops/product/model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "ridge/ops/fitted.h"
#include "ridge/ops/product/describe.h"
#include "ridge/ops/product/epilogue.h"
#include "ridge/ops/product/register_loads/register_loads.h"
#include "ridge/ops/product/time/epilogue_seconds.h"
#include "ridge/ops/product/time/plan_properties.h"
#include "ridge/ops/product/trace.h"
#include "ridge/ops/product/weight_only/weight_only.h"

namespace ridge::ops {

std::string roles_name(const MatmulConfig& c) {
  if (c.swap) return "swapped";
  if (c.roles == tile::Roles::pingpong) return "pingpong";
  return c.consumers > 1 ? "cooperative" : "single";
}

// Returns the layouts of D = A * B, before a swap.
std::string layouts_name(const MatmulConfig& c) {
  const tile::Major a = c.swap ? c.b : c.a, b = c.swap ? c.a : c.b;
  return std::string(a == tile::Major::k ? "k" : "m") + (b == tile::Major::k ? "k" : "n");
}

std::string config_name(int config) {
  const MatmulConfig& c = sm90_kernel_configs[config];
  return fmt::format(
      "sm90_{}x{}x{}_{}{}{}{}", c.m, c.n, c.k, roles_name(c), layouts_name(c) == "kk" ? "" : "_" + layouts_name(c),
      c.cluster() == 1 ? "" : fmt::format("_cluster{}x{}", c.cluster_m, c.cluster_n), c.grouped ? "_grouped" : "");
}

namespace cuda {
namespace {

constexpr int plain_tile = 32;  // Tile of the plain kernel

// Disadvantages of a candidate, as fractions. The one with the largest increase over the best plan is reported.
struct CandidateCosts {
  double idle;     // Idle multiprocessors in the last wave
  double outside;  // Computation outside D
  double loads;    // Bytes loaded into shared memory per multiply-add
};
CandidateCosts candidate_costs(const TiledProduct& x, int multiprocessors) {
  const MatmulConfig& c = x.config;
  const double tiles = static_cast<double>(x.tiles), waves = static_cast<double>(x.waves);
  return {1 - tiles * x.splits / (waves * multiprocessors), 1 - x.result_elements / (tiles * c.m * c.n),
          static_cast<double>(c.m + c.n) / (c.m * c.n) * 64};
}

TilePlan describe_plan(const MatmulPlan& plan, const MatmulProblem& problem) {
  if (plan.path == MatmulPlan::Path::nothing) return {.kernel = "nothing"};
  if (plan.path == MatmulPlan::Path::weight_only) {
    const WeightOnlyTile tile = weight_only_tiles[plan.config];
    const bool is_left = is_narrow_weight(problem.a.dtype);
    const WeightBox box = weight_box(is_left ? problem.a.dtype : problem.b.dtype);
    const int columns = count_columns(is_left ? problem.size.n : problem.size.m);
    return {plan_name(plan),
            tile.lines,
            columns,
            tile.stage_k(box, columns),
            tile.count_stages(box, columns),
            plan.splits,
            plan.waves,
            describe_split(plan)};
  }
  const DType in = problem.a.dtype;
  if (plan.path == MatmulPlan::Path::register_loads) {
    const RegisterLoadsConfig c = register_loads_configs[plan.config];
    const int stages = ring_stages(c.n, in);
    return {plan_name(plan), c.m, c.n, c.k, stages, plan.splits, plan.waves, describe_split(plan)};
  }
  if (plan.path != MatmulPlan::Path::tiles) return {.kernel = plan_name(plan)};
  const MatmulConfig c = kernel_config(plan.config, in);
  return {plan_name(plan), c.m, c.n, c.k, c.stages, plan.splits, plan.waves, describe_split(plan)};
}

const char* spread_kind(const MatmulPlan& plan, const MatmulProblem& problem) {
  if (plan.path == MatmulPlan::Path::register_loads)
    return problem.a.dtype == DType::f32 ? "f32_product" : "unaligned_product";
  const bool is_narrow_tile = plan.path == MatmulPlan::Path::tiles && operand_bytes(problem.a.dtype) != 2;
  if (is_narrow_tile || plan.path == MatmulPlan::Path::weight_only) return "narrow_product";
  return plan.path == MatmulPlan::Path::gemv && problem.batch > 1 ? "batched_gemv" : "product";
}

std::string why_not_chosen(const MatmulProblem& p, const MatmulPlan& best, const MatmulPlan& candidate,
                           int multiprocessors) {
  using Path = MatmulPlan::Path;
  if (candidate.path == Path::gemv) return "rereads the rows of A for every few columns";
  if (candidate.path == Path::register_loads && best.path == Path::register_loads)
    return fmt::format("{} wave{} of {} tiles, {} of {} in the chosen plan", candidate.waves,
                       candidate.waves == 1 ? "" : "s", candidate.tiles, best.waves, best.tiles);
  if (candidate.path == Path::register_loads) return "loads its operands through registers";
  if (best.path != Path::tiles)
    return candidate.copy_a || candidate.copy_b ? "copies an operand first" : "the chosen plan needs no tiles";
  if (candidate.config == best.config && candidate.splits == best.splits && candidate.split_mode != best.split_mode)
    return std::string(describe_split(candidate.split_mode).meaning);
  if (candidate.config == best.config && candidate.splits == best.splits)
    return candidate.copy_a + candidate.copy_b > best.copy_a + best.copy_b ? "copies an operand first"
                                                                           : "copies no operand";
  const auto tiled = [&](const MatmulPlan& plan) {
    const double sums =
        static_cast<double>(p.grouped ? 1 : p.batch) * static_cast<double>(p.size.m) * static_cast<double>(p.size.n);
    return TiledProduct{sm90_kernel_configs[plan.config], sums, plan.tiles, plan.waves, plan.splits};
  };
  return why_slower(tiled(best), tiled(candidate), multiprocessors);
}

// Returns the best plan of each other config and the second best of the chosen config. Plans are chosen by the time of
// the product alone, so all of them have the epilogue's time in the best plan.
std::vector<Candidate> list_next_best(const MatmulCall& call, const MatmulPlan& best, double epilogue_s,
                                      const DeviceNumbers& device) {
  std::vector<Candidate> out;
  std::set<std::string> kernels;
  for (const MatmulPlan& plan : list_candidates(call, plan_workspace_bytes, device, 2))
    if (plan != best && out.size() < max_candidates && kernels.insert(plan_name(plan)).second)
      out.push_back({describe_plan(plan, call.problem),
                     spread_on_device(device, spread_kind(plan, call.problem)).middle * (plan.predicted_s + epilogue_s),
                     why_not_chosen(call.problem, best, plan, device.multiprocessors)});
  return out;
}

// Returns the bytes moved by copies of operands before the product: each element is read and written.
std::int64_t copy_traffic_bytes(const MatmulProblem& p, const MatmulPlan& plan) {
  const auto count_moved_bytes = [&](const MatrixLayout& x, std::int64_t extent) {
    return 2 * (x.batch_stride == 0 ? 1 : p.batch) * extent * p.size.k * dtype_bits(x.dtype) / 8;
  };
  return (plan.copy_a ? count_moved_bytes(p.a, p.size.m) : 0) + (plan.copy_b ? count_moved_bytes(p.b, p.size.n) : 0);
}

// `rows` are those of D.
TileScheduleOptions make_schedule_options(const MatmulPlan& plan, std::int64_t rows, DType in,
                                          const DeviceNumbers& device) {
  const int blocks = device.multiprocessors;
  TileScheduleOptions order{.m = plain_tile, .n = plain_tile, .k = plain_tile, .blocks = blocks, .cache_bytes = 0};
  if (plan.path == MatmulPlan::Path::gemv)
    return {.m = static_cast<int>(max_gemv_rows),
            .n = GemvLineWarps::columns(rows, operand_bytes(in)),
            .k = 32,
            .blocks = blocks,
            .cache_bytes = 0};
  if (plan.path == MatmulPlan::Path::register_loads) {
    const RegisterLoadsConfig c = register_loads_configs[plan.config];
    return {.m = c.m, .n = c.n, .k = c.k, .swap = plan.swapped_tile, .splits = plan.splits, .blocks = plan.blocks};
  }
  if (plan.path != MatmulPlan::Path::tiles) return order;
  const MatmulConfig c = kernel_config(plan.config, in);
  order = {.m = c.m, .n = c.n, .k = c.k, .cluster_m = c.cluster_m, .cluster_n = c.cluster_n, .swap = c.swap};
  order.splits = plan.splits;
  order.split_mode = plan.split_mode;
  order.raster_rows = plan.raster_rows;
  order.blocks = plan.blocks;
  return order;
}

// Each tile of lines of weights reads all activations, from the L2 but for the first time.
MovedBytes count_weight_only_bytes(const MatmulCall& call, const MatmulPlan& plan) {
  const MatmulProblem& p = call.problem;
  const bool weights_are_right = is_narrow_weight(p.b.dtype);
  const std::int64_t rows = weights_are_right ? p.size.m : p.size.n,
                     activations = rows * p.size.k * operand_bytes((weights_are_right ? p.a : p.b).dtype);
  const auto memory = static_cast<std::int64_t>(min_product_bytes(p)) + static_cast<std::int64_t>(epilogue_bytes(call));
  return {memory + (plan.tiles - p.batch) * activations, memory};
}

MovedBytes count_moved_bytes(const MatmulCall& given, const MatmulPlan& plan, const DeviceNumbers& device) {
  if (plan.path == MatmulPlan::Path::nothing) return {};
  if (plan.path == MatmulPlan::Path::weight_only) return count_weight_only_bytes(given, plan);
  MatmulCall call = plan.d_transposed ? transpose_call(given) : given;
  TileScheduleOptions order = make_schedule_options(plan, call.problem.size.m, call.problem.a.dtype, device);
  const std::int64_t copied = copy_traffic_bytes(call.problem, plan);  // Includes groups without rows
  call.problem = to_uniform_batch(call.problem);
  order.cache_bytes = device.l2_bytes;
  MatmulTraffic all = count_tile_traffic(call.problem, order, call.epilogue);
  if (plan.path == MatmulPlan::Path::register_loads && plan.splits > 1)  // only the elements of D are written and read
    all.partial_bytes = 2 * static_cast<std::int64_t>(plan.workspace_bytes - device::counter_bytes);
  if (const auto& windows = call.problem.pixel_windows)  // the windows share the elements of the input
    all.a.memory_bytes = std::min(all.a.memory_bytes, call.problem.batch * windows->count_read_pixels() *
                                                          windows->channels * dtype_bits(call.problem.a.dtype) / 8);
  return {copied + all.global_bytes(), copied + all.a.memory_bytes + all.b.memory_bytes + all.d.memory_bytes +
                                           all.partial_bytes + static_cast<std::int64_t>(epilogue_bytes(call))};
}

double seconds_without_epilogue(const MatmulProblem& problem, const MatmulPlan& plan, const DeviceNumbers& device) {
  if (plan.path != MatmulPlan::Path::plain) return plan.predicted_s;
  const auto whole = [](std::int64_t x) { return static_cast<double>((x + plain_tile - 1) / plain_tile * plain_tile); };
  const double flop = 2.0 * static_cast<double>(problem.batch) * whole(problem.size.m) * whole(problem.size.n) *
                      static_cast<double>(problem.size.k);
  const double flop_per_s = kernel_constants().plain_flops_per_cycle * device.multiprocessors * device.clock_hz;
  return device.launch_s + std::max(flop / flop_per_s, min_product_bytes(problem) / device.memory_bytes_per_s);
}

// Returns the product padded to lines aligned to 16 bytes, if copies or stores of single elements suffer from
// alignment.
std::optional<PlanProperties::PaddedProduct> predict_padded(const PlanProperties& properties,
                                                            const MatmulProblem& problem, const DeviceNumbers& device) {
  const bool copies = std::any_of(properties.unaligned_operands.begin(), properties.unaligned_operands.end(),
                                  [](const PlanProperties::UnalignedOperand& x) { return x.copy_traffic_bytes > 0; });
  if (!copies && !properties.element_stores) return std::nullopt;
  const MatmulProblem larger = pad_to_eight(problem);
  if (larger == problem) return std::nullopt;
  const MatmulPlan plan = choose_plan({.problem = larger}, plan_workspace_bytes, device);
  const double seconds = seconds_without_epilogue(larger, plan, device);
  return PlanProperties::PaddedProduct{larger.size, spread_on_device(device, "product").middle * seconds};
}

}  // namespace

std::string register_loads_name(int config, bool swap) {
  const RegisterLoadsConfig c = register_loads_configs[config];
  return fmt::format("sm90_registers_{}x{}x{}{}", c.m, c.n, c.k, swap ? "_swapped" : "");
}

std::string plan_name(const MatmulPlan& plan) {
  using Path = MatmulPlan::Path;
  if (plan.path == Path::tiles) return config_name(plan.config);
  if (plan.path == Path::register_loads) return register_loads_name(plan.config, plan.swapped_tile);
  if (plan.path == Path::weight_only) return fmt::format("sm90_weight_only_{}", weight_only_tiles[plan.config].lines);
  return plan.path == Path::gemv ? "sm90_gemv" : "sm90_plain";
}

SplitDescription describe_split(tile::SplitMode split_mode) {
  switch (split_mode) {
    case tile::SplitMode::split_k: return {"split_k", "the last split of k adds all partial sums"};
    case tile::SplitMode::cluster_split_k: return {"cluster_split_k", "the splits of k are the blocks of a cluster"};
    case tile::SplitMode::stream_k: return {"stream_k", "every block computes an equal run of all stages"};
    case tile::SplitMode::cooperative_split_k: return {"cooperative_split_k", "the splits of k wait for each other"};
  }
  return {};
}
SplitDescription describe_split(const MatmulPlan& plan) {
  if (plan.path == MatmulPlan::Path::register_loads && plan.splits > 1)
    return {"split_k", "a second kernel adds the sums of all splits of k"};
  const bool is_split =
      (plan.path == MatmulPlan::Path::weight_only && plan.splits > 1) ||
      (plan.path == MatmulPlan::Path::tiles && (plan.splits > 1 || plan.split_mode == tile::SplitMode::stream_k));
  return is_split ? describe_split(plan.split_mode) : SplitDescription{};
}

std::string why_slower(const TiledProduct& best, const TiledProduct& candidate, int multiprocessors) {
  const CandidateCosts a = candidate_costs(best, multiprocessors), b = candidate_costs(candidate, multiprocessors);
  if (candidate.splits > best.splits)
    return fmt::format("adds {} splits of k; the chosen plan adds {}", candidate.splits, best.splits);
  const double idle = b.idle - a.idle, outside = b.outside - a.outside, loads = b.loads / a.loads - 1;
  if (outside > std::max(idle, loads) && outside > 0.01)
    return fmt::format("{:.0f} % of its work is outside the result, {:.0f} % in the chosen plan", 100 * b.outside,
                       100 * a.outside);
  if (idle > loads && idle > 0.01)
    return fmt::format("{} wave{} with {:.0f} % idle, {:.0f} % in the chosen plan", candidate.waves,
                       candidate.waves == 1 ? "" : "s", 100 * b.idle, 100 * a.idle);
  if (loads > 0.01) return fmt::format("loads {:.0f} % more for each product", 100 * loads);
  if (candidate.splits < best.splits)
    return fmt::format("each block processes {} times as much of k", best.splits / std::max(candidate.splits, 1));
  return "nearly equal: fixed costs decide";
}

Forecast forecast(const MatmulCall& given, const DeviceNumbers& device) {
  const MatmulPlan plan = choose_plan(given, plan_workspace_bytes, device);
  MatmulCall call = given;
  call.problem = to_uniform_batch(given.problem);
  const double epilogue_s = predict_epilogue_seconds(call, plan, device);
  Forecast out{.plan = describe_plan(plan, call.problem),
               .is_main_kernel = true,
               .spread = spread_on_device(device, spread_kind(plan, call.problem))};
  out.seconds = seconds_without_epilogue(call.problem, plan, device) + epilogue_s;
  out.count_bytes = [=] { return count_moved_bytes(given, plan, device); };
  out.properties = plan_properties(given.problem, plan, device);
  out.properties->min_bytes += epilogue_bytes(call);
  if (!given.problem.grouped && !given.problem.pixel_windows && !has_narrow_weights(given.problem))
    out.properties->padded = predict_padded(*out.properties, given.problem, device);
  if (plan.path == MatmulPlan::Path::tiles) out.candidates = list_next_best(given, plan, epilogue_s, device);
  return out;
}

}  // namespace cuda

Result<Forecast> forecast(const MatmulProblem& problem, const DeviceNumbers& device) {
  if (const auto refusal = cuda::unsupported_reason(problem)) return input_error(refusal.text());
  return cuda::forecast(MatmulCall{.problem = problem}, device);
}

// Decoding an element takes as long as 4 FLOPs at the f32 peak, or 6 with f32 scales: 0.05 and 0.075 ns on one core
// (Zen 4, AVX-512, blocks in the L2, 2026-11-29). It happens once for each product of a batch, or once for eight of up
// to 16 rows, which bf16 multiplies without packing.
static void add_conversion(CpuForecast& forecast, const MatmulProblem& p) {
  const auto real = [](std::int64_t x) { return static_cast<double>(x); };
  const bool is_left = is_block_scaled(p.a.dtype);
  const double lines = real(is_left ? p.size.m : p.size.n);
  const DType blocks = is_left ? p.a.dtype : p.b.dtype;
  const std::int64_t rows = is_left ? p.size.n : p.size.m;
  // More rows are multiplied in f32 by blocks of int4 and u4.
  forecast.uses_bf16_pairs = (is_left ? p.b : p.a).dtype == DType::bf16 && (rows <= 16 || !has_integer_blocks(blocks));
  const double decoding_cost = blocks == DType::e4m3_128 ? 6 : 4;
  const double flops_per_cost = forecast.uses_bf16_pairs ? 2 : 1;
  const double passes = forecast.uses_bf16_pairs && rows <= 16 ? std::ceil(real(rows) / 8) : 1;
  forecast.vector_flops = real(p.batch) * real(p.size.k) *
                          (2 * real(p.size.m) * real(p.size.n) + lines * passes * decoding_cost * flops_per_cost);
  forecast.spread = {0.8, 1, 2};
}

CpuForecast cpu_forecast(const MatmulProblem& problem, int threads) {
  const MatmulProblem counted = to_uniform_batch(problem);
  CpuForecast out{.kernel = "matmul",
                  .requested_bytes = count_cpu_traffic(counted, threads).global_bytes(),
                  .properties = cpu_plan_properties(counted, threads)};
  if (problem.windows) add_windows(out, problem);
  if (is_block_scaled(problem.a.dtype) || is_block_scaled(problem.b.dtype)) add_conversion(out, counted);
  return out;
}

// Placing or packing an element of the windows takes as long as 8 FLOPs at the f32 peak, 0.07 ns on one core, or as 9
// at the peak of bf16, 0.04 ns (Zen 4, AVX-512, 3x3 windows of 64 and 128 channels, 2026-11-30).
void add_windows(CpuForecast& forecast, const MatmulProblem& p) {
  const auto real = [](std::int64_t x) { return static_cast<double>(x); };
  forecast.uses_bf16_pairs = p.a.dtype == DType::bf16;
  const double packing_cost = forecast.uses_bf16_pairs ? 9 : 8;
  forecast.vector_flops = real(p.batch) * real(p.size.k) * real(p.size.n) * (2 * real(p.size.m) + packing_cost);
  forecast.spread = {0.8, 1, 2};
}

}  // namespace ridge::ops
