#include "ridge/measure/contest/time_plans.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <random>

#include "ridge/base/version.h"
#include "ridge/device/device.h"
#include "ridge/machine/system.h"
#include "ridge/measure/device_machine.h"
#include "ridge/measure/plan_timer.h"
#include "ridge/measure/timer.h"
#include "ridge/ops/product/config.h"

namespace ridge {
namespace {

namespace cuda = ops::cuda;

constexpr std::size_t workspace_bytes = std::size_t{1} << 30;
constexpr int rounds = 3;
constexpr double most_product_seconds = 0.5, replay_seconds = 1e-3;
constexpr double slowest = 2.5;  // relative to the time of the model's fastest plan

std::size_t below(std::mt19937& random, std::size_t n) { return random() % n; }

std::vector<std::size_t> drawn_order(std::size_t count) {
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::mt19937 random(1);  // NOLINT: the same order every time
  for (std::size_t i = count; i > 1; --i) std::swap(order[i - 1], order[below(random, i)]);
  return order;
}

class Drawing {
 public:
  // Returns the model's best plans, then others of the configs with the fewest timings.
  std::vector<cuda::MatmulPlan> plans(const cuda::MatmulCall& call, const ops::DeviceNumbers& device,
                                      std::size_t most) {
    std::vector<cuda::MatmulPlan> out = cuda::candidates(call, workspace_bytes, device, 2);
    if (out.empty()) return out;
    const double latest = slowest * out.front().predicted_s;
    out.resize(std::min(out.size(), most / 2));
    std::vector<cuda::MatmulPlan> rest = cuda::candidates(call, workspace_bytes, device, all_of_a_row);
    std::erase_if(rest, [&](const cuda::MatmulPlan& x) {
      return x.config < 0 || x.predicted_s > latest || std::find(out.begin(), out.end(), x) != out.end();
    });
    while (out.size() < most && !rest.empty()) {
      int config = rest.front().config;
      for (const cuda::MatmulPlan& x : rest)
        if (timings_[index(x.config)] < timings_[index(config)]) config = x.config;
      std::vector<std::size_t> of_config;
      for (std::size_t i = 0; i < rest.size(); ++i)
        if (rest[i].config == config) of_config.push_back(i);
      const auto at = rest.begin() + static_cast<std::ptrdiff_t>(of_config[below(random_, of_config.size())]);
      ++timings_[index(config)];
      out.push_back(*at);
      rest.erase(at);
    }
    return out;
  }

 private:
  static constexpr std::size_t all_of_a_row = 1'000'000;
  static std::size_t index(int config) { return static_cast<std::size_t>(config); }

  std::array<int, ops::sm90_menu.size()> timings_ = {};
  std::mt19937 random_{2};  // NOLINT: the same plans every time
};

Result<TimedProduct> timed(const ContestShape& shape, const ops::DeviceNumbers& device, Drawing& drawing, int most) {
  const cuda::MatmulCall call = timed_call(shape);
  const auto soonest = cuda::choose(call, workspace_bytes, device).predicted_s;
  const double each = (rounds + 1) * 1.5 * std::max(soonest, replay_seconds);
  const int afforded = std::max(12, static_cast<int>(most_product_seconds / each));
  TimedProduct out{shape, {}};
  const auto plans = drawing.plans(call, device, static_cast<std::size_t>(std::min(most, afforded)));
  if (plans.empty()) return out;
  PlanTimer timer(call, {.replay_seconds = replay_seconds, .warm_seconds = 5e-3});
  const auto seconds = timer.measure(plans, rounds);
  if (!seconds) return seconds.error();
  for (std::size_t i = 0; i < plans.size(); ++i) {
    const cuda::MatmulPlan& x = plans[i];
    const bool tiles = x.path == cuda::MatmulPlan::Path::tiles;
    out.plans.push_back({tiles ? x.config : -1, {x.splits, x.split_mode}, {x.copy_a, x.copy_b}, (*seconds)[i]});
  }
  return out;
}

}  // namespace

Result<TimedDevice> timed_device() {
  const auto facts = cuda::device_facts();
  if (!facts) return facts.error();
  TimedDevice out{.device = facts->name,
                  .day = today(),
                  .ridge = fmt::format("{} ({})", version(), commit()),
                  .driver = facts->driver,
                  .multiprocessors = facts->multiprocessors,
                  .clock_hz = facts->clock_hz,
                  .memory_bytes_per_s = facts->memory_bytes_per_s,
                  .l2_bytes = facts->l2_bytes};
  for (int blocks = 1; blocks <= tile::most_cluster_splits; ++blocks)
    out.clusters_at_once.push_back(cuda::clusters_at_once_of_device(blocks));
  return out;
}

Status time_plans(const std::vector<ContestShape>& shapes, const TimePlansOptions& options) {
  const auto device = device_numbers_here();
  if (!device) return device.error();
  const Timer timer;
  Drawing drawing;
  std::size_t done = 0;
  for (const std::size_t i : drawn_order(shapes.size())) {
    if (done++ < options.skip) continue;
    if (timer.seconds() > options.seconds) break;
    if (shapes[i].dtype != DType::bf16 && shapes[i].dtype != DType::f16) continue;
    const auto product = timed(shapes[i], *device, drawing, options.plans);
    if (!product) return product.error();
    if (!product->plans.empty()) options.timed(*product, done, shapes.size());
  }
  return Done{};
}

}  // namespace ridge
