#include "ridge/ops/product/time/losses.h"

#include <algorithm>
#include <cmath>

#include "ridge/ops/product/closed_form.h"

namespace ridge::ops {
namespace {

using namespace cuda;

class Taking {
 public:
  Taking(const PlannedWork& planned, const DeviceNumbers& device)
      : config_(sm90_menu[static_cast<std::size_t>(planned.plan.config)]),
        work_(planned.work),
        split_{planned.plan.splits, planned.plan.split_mode},
        device_(device),
        model_(product_model()) {
    model_.trees.clear();
    before_ = seconds();
  }

  std::vector<Loss> all() {
    without({&Constants::launch, &Constants::cluster_start, &Constants::cluster_block, &Constants::beside,
             &Constants::beside_prefetch});
    take("launch");
    work_.granule_a = work_.granule_b = 128;
    work_.element_stores = work_.narrow_a = work_.narrow_b = false;
    work_.copies = 0;
    work_.copied_bytes = 0;
    take("unaligned lines");
    without({&Constants::first_load, &Constants::tile_end, &Constants::tile_end_alone, &Constants::box});
    take("fill and drain");
    without({&Constants::split, &Constants::split_sums, &Constants::split_batch, &Constants::gather,
             &Constants::gather_sums, &Constants::gather_turn, &Constants::share, &Constants::share_step,
             &Constants::stream, &Constants::next_cluster});
    take("split fix-up");
    without({&Constants::slowdown});
    device_.busy_clock_hz = device_.clock_hz;
    take("clock under power");
    take_last_wave();
    take_edges();
    std::erase_if(losses_, [](const Loss& x) { return std::abs(x.seconds) < 1e-12; });
    return losses_;
  }

 private:
  double seconds() const { return predicted_seconds(config_, work_, split_, device_, model_); }
  void without(std::initializer_list<double Constants::*> constants) {
    for (Constants& of_bound : model_.constants)
      for (const auto constant : constants) of_bound.*constant = 0;
  }
  void add(std::string_view cause, double now) {
    losses_.push_back({cause, before_ - now});
    before_ = now;
  }
  void take(std::string_view cause) { add(cause, seconds()); }

  // A batch with one copy of the product per multiprocessor has only full waves.
  void take_last_wave() {
    TileWork many = work_;
    const int count = device_.multiprocessors;
    many.batch *= count;
    many.minimum_bytes *= count;
    many.result_bytes *= count;
    std::swap(many, work_);
    const double each = seconds() / count;
    std::swap(many, work_);
    add("last wave", std::min(before_, each));
  }

  void take_edges() {
    const auto whole = [](std::int64_t size, int tile) {
      const double tiles = std::ceil(static_cast<double>(size) / tile);
      return static_cast<double>(size) / (tiles * tile);
    };
    const double inside = whole(work_.m, config_.m * config_.cluster_m) *
                          whole(work_.n, config_.n * config_.cluster_n) * whole(work_.k, config_.k);
    const double moving = work_.minimum_bytes / device_.memory_bytes_per_s;
    add("tile edges", std::min(before_, std::max(before_ * inside, moving)));
  }

  const MatmulConfig& config_;
  TileWork work_;
  SplitK split_;
  DeviceNumbers device_;
  ProductModel model_;
  double before_ = 0;
  std::vector<Loss> losses_ = {};
};

}  // namespace

std::vector<Loss> losses(const MatmulProblem& problem, const DeviceNumbers& device) {
  const MatmulCall call{.problem = problem};
  const MatmulPlan plan = choose(call, plan_workspace_bytes, device);
  if (plan.path != MatmulPlan::Path::tiles) return {{"launch", device.launch_s}};
  const auto planned = planned_work(call, plan_workspace_bytes, device,
                                    {plan.config, {plan.splits, plan.split_mode}, {plan.copy_a, plan.copy_b}});
  return planned ? Taking(*planned, device).all() : std::vector<Loss>{};
}

}  // namespace ridge::ops
