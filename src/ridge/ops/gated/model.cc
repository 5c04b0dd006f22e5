#include "ridge/ops/gated/model.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "ridge/ops/fitted.h"
#include "ridge/ops/gated/config.h"
#include "ridge/ops/product/describe.h"
#include "ridge/ops/product/trace.h"

namespace ridge::ops::cuda {
namespace {

std::string gated_kernel_name(int config) {
  const MatmulConfig& c = sm90_gated_kernel_configs[config];
  return fmt::format("sm90_gated_{}x{}x{}_{}{}", c.m, c.n, c.k, roles_name(c),
                     layouts_name(c) == "kk" ? "" : "_" + layouts_name(c));
}
const MatmulConfig& config_of(const GatedPlan& plan) { return sm90_gated_kernel_configs[plan.config]; }
std::int64_t count_waves(const GatedPlan& plan, int multiprocessors) {
  return (plan.tiles * plan.splits + multiprocessors - 1) / multiprocessors;
}
TilePlan describe_plan(const GatedPlan& plan, int multiprocessors) {
  if (plan.path == GatedPlan::Path::nothing) return {.kernel = "nothing"};
  if (plan.path == GatedPlan::Path::plain) return {.kernel = "sm90_gated_plain"};
  const MatmulConfig& c = config_of(plan);
  return {gated_kernel_name(plan.config),
          c.m,
          c.n,
          c.k,
          c.stages,
          plan.splits,
          count_waves(plan, multiprocessors),
          plan.splits > 1 ? describe_split(tile::SplitMode::split_k) : SplitDescription{}};
}

// Returns the best plan of each other config; configs that differ only in stages count as one.
std::vector<Candidate> list_next_best(const GatedCall& call, const GatedPlan& best, const DeviceNumbers& device) {
  const int sms = device.multiprocessors;
  const double sums = 2.0 * static_cast<double>(call.size.m) * static_cast<double>(call.size.n);
  const auto make_tiled = [&](const GatedPlan& plan) {
    return TiledProduct{config_of(plan), sums, plan.tiles, count_waves(plan, sms), plan.splits};
  };
  std::vector<Candidate> out;
  for (int config = 0; config < static_cast<int>(sm90_gated_kernel_configs.size()); ++config) {
    std::optional<GatedPlan> fastest;
    for (const int splits : {1, 2, 3, 4, 6, 8}) {
      const auto plan = make_plan(call, plan_workspace_bytes, device, config, splits);
      if (plan && (!fastest || plan->predicted_s < fastest->predicted_s)) fastest = plan;
    }
    if (fastest && config != best.config)
      out.push_back({describe_plan(*fastest, sms), fastest->predicted_s,
                     why_slower(make_tiled(best), make_tiled(*fastest), sms)});
  }
  std::stable_sort(out.begin(), out.end(),
                   [](const Candidate& a, const Candidate& b) { return a.predicted_s < b.predicted_s; });
  std::set<std::string> seen_names{gated_kernel_name(best.config)};
  std::erase_if(out, [&](const Candidate& candidate) { return !seen_names.insert(candidate.plan.kernel).second; });
  out.resize(std::min(out.size(), max_candidates));
  return out;
}

// Counts both halves as one product of twice the width, half of whose results are stored.
MovedBytes count_moved_bytes(const GatedCall& call, const GatedPlan& plan, const DeviceNumbers& device) {
  const MatmulProblem wide{.batch = 1,
                           .size = {call.size.m, 2 * call.size.n, call.size.k},
                           .a = {call.dtype, call.x_row_stride, 1, 0},
                           .b = {call.dtype, 1, call.size.k, 0},
                           .d = {call.out, 2 * call.size.n, 1, 0}};
  TileScheduleOptions order{.m = 32, .n = 64, .k = 32, .blocks = device.multiprocessors, .cache_bytes = 0};
  if (plan.path == GatedPlan::Path::tiles) {
    order = {.m = config_of(plan).m, .n = config_of(plan).n, .k = config_of(plan).k};
    order.splits = plan.splits;
    order.raster_rows = plan.raster_rows;
    order.blocks = plan.blocks;
  }
  const std::int64_t element_bytes = dtype_bits(call.dtype) / 8;
  const std::int64_t copied = 2 * element_bytes * call.size.k *
                              ((plan.copy_x ? call.size.m : 0) + (plan.copy_up + plan.copy_gate) * call.size.n);
  const std::int64_t biases = ((call.bu != nullptr) + (call.bg != nullptr)) * call.size.n * dtype_bits(call.bias) / 8;
  const std::int64_t tile_rows = (call.size.m + order.m - 1) / order.m;
  order.cache_bytes = device.l2_bytes;
  const MatmulTraffic all = count_tile_traffic(wide, order);
  return {copied + all.global_bytes() - all.d.global_bytes / 2 + biases * tile_rows,
          copied + all.a.memory_bytes + all.b.memory_bytes + all.d.memory_bytes / 2 + all.partial_bytes + biases};
}

}  // namespace

Forecast forecast(const GatedCall& call, const DeviceNumbers& device) {
  const GatedPlan plan = choose_plan(call, plan_workspace_bytes, device);
  Forecast out{.plan = describe_plan(plan, device.multiprocessors),
               .is_main_kernel = true,
               .spread = spread_on_device(device, "product")};
  if (plan.path == GatedPlan::Path::nothing) return out;
  out.seconds = plan.predicted_s;
  const double flop = 4 * call.size.multiply_adds();
  if (plan.path == GatedPlan::Path::plain)
    out.seconds =
        device.launch_s + flop / (kernel_constants().plain_flops_per_cycle * device.multiprocessors * device.clock_hz);
  out.count_bytes = [=] { return count_moved_bytes(call, plan, device); };
  if (plan.path == GatedPlan::Path::tiles) out.candidates = list_next_best(call, plan, device);
  return out;
}

}  // namespace ridge::ops::cuda
