#include "ridge/ops/product/time/overheads.h"

#include <algorithm>
#include <cmath>

#include "ridge/ops/product/closed_form.h"

namespace ridge::ops {
namespace {

using namespace cuda;

class OverheadAnalysis {
 public:
  OverheadAnalysis(const UncorrectedPlan& planned, const DeviceNumbers& device)
      : config_(kernel_config(planned.plan.config, planned.work.dtype)),
        work_(planned.work),
        split_{planned.plan.splits, planned.plan.split_mode},
        device_(device),
        model_(product_model()) {
    model_.trees.clear();
    previous_s_ = predict_product_s();
  }

  std::vector<OverheadCause> analyze_all() {
    clear_constants({&ClosedFormConstants::launch_cycles, &ClosedFormConstants::cluster_start_cycles,
                     &ClosedFormConstants::cluster_block_cycles, &ClosedFormConstants::launch_overlap_cycles,
                     &ClosedFormConstants::prefetch_overlap_cycles});
    record_cause("launch");
    work_.alignment_a = work_.alignment_b = 128;
    work_.element_stores = work_.narrow_a = work_.narrow_b = false;
    work_.copies = 0;
    work_.copied_bytes = 0;
    record_cause("unaligned lines");
    clear_constants({&ClosedFormConstants::first_load_cycles, &ClosedFormConstants::tile_end_cycles,
                     &ClosedFormConstants::exposed_end_cycles, &ClosedFormConstants::store_box_cycles});
    record_cause("fill and drain");
    clear_constants({&ClosedFormConstants::split_k_cycles, &ClosedFormConstants::split_k_sum_cycles,
                     &ClosedFormConstants::split_k_batch_cycles, &ClosedFormConstants::cooperative_cycles,
                     &ClosedFormConstants::cooperative_sum_cycles, &ClosedFormConstants::cooperative_step_cycles,
                     &ClosedFormConstants::cluster_split_cycles, &ClosedFormConstants::cluster_split_step_cycles,
                     &ClosedFormConstants::stream_k_cycles, &ClosedFormConstants::next_cluster_cycles});
    record_cause("split fix-up");
    clear_constants({&ClosedFormConstants::power_slowdown});
    device_.busy_clock_hz = device_.clock_hz;
    record_cause("clock under power");
    record_last_wave();
    record_tile_edges();
    std::erase_if(overheads_, [](const OverheadCause& x) { return std::abs(x.seconds) < 1e-12; });
    return overheads_;
  }

 private:
  double predict_product_s() const { return predict_seconds(config_, work_, split_, device_, model_); }
  void clear_constants(std::initializer_list<double ClosedFormConstants::*> constants) {
    for (ClosedFormConstants& bound_constants : model_.constants)
      for (const auto constant : constants) bound_constants.*constant = 0;
  }
  void record_difference(std::string_view cause, double now) {
    overheads_.push_back({cause, previous_s_ - now});
    previous_s_ = now;
  }
  void record_cause(std::string_view cause) { record_difference(cause, predict_product_s()); }

  // A batch with as many copies of the product as multiprocessors has only full waves.
  void record_last_wave() {
    TileWork repeated = work_;
    const int count = device_.multiprocessors;
    repeated.batch *= count;
    repeated.minimum_bytes *= count;
    repeated.result_bytes *= count;
    std::swap(repeated, work_);
    const double each = predict_product_s() / count;
    std::swap(repeated, work_);
    record_difference("last wave", std::min(previous_s_, each));
  }

  void record_tile_edges() {
    const auto used_fraction = [](std::int64_t size, int tile) {
      const double tiles = std::ceil(static_cast<double>(size) / tile);
      return static_cast<double>(size) / (tiles * tile);
    };
    const double inside = used_fraction(work_.size.m, config_.m * config_.cluster_m) *
                          used_fraction(work_.size.n, config_.n * config_.cluster_n) *
                          used_fraction(work_.size.k, config_.k);
    const double memory_s = work_.minimum_bytes / device_.memory_bytes_per_s;
    record_difference("tile edges", std::min(previous_s_, std::max(previous_s_ * inside, memory_s)));
  }

  MatmulConfig config_;
  TileWork work_;
  SplitK split_;
  DeviceNumbers device_;
  ProductModel model_;
  double previous_s_ = 0;
  std::vector<OverheadCause> overheads_ = {};
};

}  // namespace

std::vector<OverheadCause> overhead_breakdown(const MatmulProblem& problem, const DeviceNumbers& device) {
  const MatmulCall call{.problem = problem};
  const MatmulPlan plan = choose_plan(call, plan_workspace_bytes, device);
  if (plan.path != MatmulPlan::Path::tiles) return {{"launch", device.launch_s}};
  const auto planned = make_uncorrected_plan(call, plan_workspace_bytes, device,
                                             {plan.config, {plan.splits, plan.split_mode}, {plan.copy_a, plan.copy_b}});
  return planned ? OverheadAnalysis(*planned, device).analyze_all() : std::vector<OverheadCause>{};
}

}  // namespace ridge::ops
