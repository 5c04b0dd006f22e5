// A plan's steps as launches of CUDA kernels, without memory of their own: the plan of each product and attention is
// chosen once, and the buffers' addresses are passed with each call.
#pragma once

#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "ridge/base/reason.h"
#include "ridge/base/result.h"
#include "ridge/ops/attention/cuda.h"
#include "ridge/ops/fused/cuda.h"
#include "ridge/plan/plan.h"
#include "ridge/run/tune.h"

namespace ridge {

class DeviceLaunches {
 public:
  using BufferAddresses = std::vector<std::byte*>;  // addresses of Plan::buffers, null where not needed

  // `accumulate`: the last step, a product, adds its result, rounded to the result's dtype, to the destination.
  enum class OutputMode { overwrite, accumulate };
  struct LaunchOptions {
    TuneOptions tune = {};
    // Tunes only the products of this kernel; nullopt tunes all.
    std::optional<int> group = {};
    OutputMode output_mode = OutputMode::overwrite;
    // Rows of the first step's A, if that step is a product (shared_rows.h).
    ops::GatheredRows gathered = {};
    // Rows of the last step's result.
    ops::ScatteredRows scattered = {};
  };
  // Later calls need addresses of the same alignment. Errors: no device, no memory to tune in, unsupported shared rows.
  static Result<DeviceLaunches> make(Plan plan, const BufferAddresses& addresses, const LaunchOptions& launch_options);

  const Plan& plan() const { return plan_; }
  const std::vector<std::pair<int, TuningResult>>& tuning_results() const {
    return tuned_;
  }                                                                 // kernel's index and result per product
  std::size_t workspace_bytes() const { return workspace_bytes_; }  // 0 if no step needs a workspace
  // Queues all steps once, in order, or those of one kernel. The workspace must be zeroed where it holds counters.
  Status queue_steps(CUstream_st* stream, const BufferAddresses& addresses, const device::DeviceWorkspace& workspace,
                     std::optional<int> group = std::nullopt) const;

 private:
  DeviceLaunches(Plan plan, const LaunchOptions& launch_options)
      : plan_(std::move(plan)),
        output_mode_(launch_options.output_mode),
        gathered_(launch_options.gathered),
        scattered_(launch_options.scattered) {}
  std::optional<ops::cuda::FusedCall> make_product_call(const PlanStep& step, const BufferAddresses& addresses) const;
  Status choose_step_plan(const PlanStep& step, const BufferAddresses& addresses, const TuneOptions& tune);
  Result<std::size_t> choose_product_plan(const PlanStep& step, const ops::cuda::FusedCall& product,
                                          const TuneOptions& tune);
  Status queue_step(CUstream_st* stream, const PlanStep& step, const BufferAddresses& addresses,
                    const device::DeviceWorkspace& workspace) const;

  Plan plan_;
  OutputMode output_mode_;
  ops::GatheredRows gathered_;
  ops::ScatteredRows scattered_;
  std::vector<std::variant<ops::cuda::MatmulPlan, ops::cuda::GatedPlan, ops::cuda::AttentionPlan,
                           ops::cuda::AttentionBackwardPlan>>
      chosen_plans_ = {};  // one per step of Plan::steps
  std::vector<std::pair<int, TuningResult>> tuned_ = {};
  std::size_t workspace_bytes_ = 0;
};

// Returns why no CUDA kernel can run this step, as a sentence. Needs no device.
Reason device_unsupported_reason(const PlanStep& step);

}  // namespace ridge
