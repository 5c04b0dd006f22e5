#include "ridge/bench/plan_timings.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <random>

#include "ridge/base/contains.h"
#include "ridge/base/timer.h"
#include "ridge/base/version.h"
#include "ridge/device/device.h"
#include "ridge/machine/system.h"
#include "ridge/ops/product/config.h"
#include "ridge/run/device_machine.h"
#include "ridge/run/plan_timer.h"

namespace ridge {
namespace {

namespace cuda = ops::cuda;

constexpr std::size_t workspace_bytes = std::size_t{1} << 30;
constexpr int rounds = 3;
constexpr double max_product_seconds = 0.5, replay_seconds = 1e-3;
constexpr double max_slowdown = 2.5;  // relative to the time of the model's fastest plan

std::size_t random_below(std::mt19937& random, std::size_t n) { return random() % n; }

std::vector<std::size_t> draw_product_order(std::size_t count) {
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::mt19937 random(1);  // NOLINT: the same order every time
  for (std::size_t i = count; i > 1; --i) std::swap(order[i - 1], order[random_below(random, i)]);
  return order;
}

class PlanSampler {
 public:
  // Returns the model's best plans, then others of the configs with the fewest timings.
  std::vector<cuda::MatmulPlan> sample_plans(const cuda::MatmulCall& call, const ops::DeviceNumbers& device,
                                             std::size_t max_plans) {
    // Plans with register loads are fitted to results/ and have no column in the file of timings.
    const auto list = [&](std::size_t per_config) {
      auto all = cuda::list_candidates(call, workspace_bytes, device, per_config);
      std::erase_if(all, [](const auto& x) { return x.path == cuda::MatmulPlan::Path::register_loads; });
      return all;
    };
    std::vector<cuda::MatmulPlan> out = list(2);
    if (out.empty()) return out;
    const double max_predicted_s = max_slowdown * out.front().predicted_s;
    out.resize(std::min(out.size(), max_plans / 2));
    std::vector<cuda::MatmulPlan> rest = list(max_candidates);
    std::erase_if(rest, [&](const cuda::MatmulPlan& x) {
      return x.config < 0 || x.predicted_s > max_predicted_s || contains(out, x);
    });
    while (out.size() < max_plans && !rest.empty()) {
      int config = rest.front().config;
      for (const cuda::MatmulPlan& x : rest)
        if (timing_counts_[config_index(x.config)] < timing_counts_[config_index(config)]) config = x.config;
      std::vector<std::size_t> of_config;
      for (std::size_t i = 0; i < rest.size(); ++i)
        if (rest[i].config == config) of_config.push_back(i);
      const auto at = rest.begin() + static_cast<std::ptrdiff_t>(of_config[random_below(random_, of_config.size())]);
      ++timing_counts_[config_index(config)];
      out.push_back(*at);
      rest.erase(at);
    }
    return out;
  }

 private:
  static constexpr std::size_t max_candidates = 1'000'000;
  static std::size_t config_index(int config) { return static_cast<std::size_t>(config); }

  std::array<int, ops::sm90_kernel_configs.size()> timing_counts_ = {};
  std::mt19937 random_{2};  // NOLINT: the same plans every time
};

Result<TimedProduct> time_product(const BenchmarkShape& shape, const ops::DeviceNumbers& device, PlanSampler& sampler,
                                  int max_plans) {
  const cuda::MatmulCall call = make_timed_call(shape);
  const auto best_predicted_s = cuda::choose_plan(call, workspace_bytes, device).predicted_s;
  const double plan_seconds = (rounds + 1) * 1.5 * std::max(best_predicted_s, replay_seconds);
  const int max_affordable = std::max(12, static_cast<int>(max_product_seconds / plan_seconds));
  TimedProduct out{shape, {}};
  const auto plans = sampler.sample_plans(call, device, static_cast<std::size_t>(std::min(max_plans, max_affordable)));
  if (plans.empty()) return out;
  PlanTimer timer(call, {.replay_seconds = replay_seconds, .warmup_seconds = 5e-3});
  RIDGE_TRY(seconds, timer.measure_plans(plans, rounds));
  for (std::size_t i = 0; i < plans.size(); ++i) {
    const cuda::MatmulPlan& x = plans[i];
    const bool uses_tiles = x.path == cuda::MatmulPlan::Path::tiles;
    out.plans.push_back({uses_tiles ? x.config : -1, {x.splits, x.split_mode}, {x.copy_a, x.copy_b}, seconds[i]});
  }
  return out;
}

}  // namespace

Result<TimedDevice> describe_timed_device() {
  RIDGE_TRY(properties, device::device_properties());
  TimedDevice out{.device = properties.name,
                  .day = today_utc(),
                  .ridge_version = fmt::format("{} ({})", version(), commit()),
                  .driver = properties.driver,
                  .multiprocessors = properties.multiprocessors,
                  .clock_hz = properties.clock_hz,
                  .memory_bytes_per_s = properties.memory_bytes_per_s,
                  .l2_bytes = properties.l2_bytes};
  for (int blocks = 1; blocks <= tile::max_cluster_splits; ++blocks)
    out.max_active_clusters.push_back(device::max_active_clusters(blocks));
  return out;
}

Status time_plans(const std::vector<BenchmarkShape>& shapes, const TimePlansOptions& options) {
  RIDGE_TRY(device, current_device_numbers());
  const Timer timer;
  PlanSampler sampler;
  std::size_t done = 0;
  for (const std::size_t i : draw_product_order(shapes.size())) {
    if (done++ < options.skip) continue;
    if (timer.seconds() > options.seconds) break;
    if (shapes[i].dtype != DType::bf16 && shapes[i].dtype != DType::f16) continue;
    RIDGE_TRY(product, time_product(shapes[i], device, sampler, options.plans_per_product));
    if (!product.plans.empty()) options.on_timed(product, done, shapes.size());
  }
  return Done{};
}

}  // namespace ridge
