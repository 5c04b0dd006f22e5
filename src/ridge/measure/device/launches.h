// A plan's steps as launches of CUDA kernels, without memory of their own: the plan of each product and attention is
// chosen once, and the buffers' addresses are passed with each call.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "ridge/measure/tune.h"
#include "ridge/ops/attention/cuda.h"
#include "ridge/ops/fused/cuda.h"
#include "ridge/plan/plan.h"

namespace ridge {

class DeviceLaunches {
 public:
  using Places = std::vector<std::byte*>;  // addresses of Plan::buffers, null where not needed

  // `accumulate`: the last step, a product, adds its result, rounded to the result's dtype, to the destination.
  enum class Last { stored, added };
  struct How {
    TuneOptions tune = {};
    // Tunes only the products of this kernel; nullopt tunes all.
    std::optional<int> group = {};
    Last last = Last::stored;
    // Rows of the first step's A, if that step is a product (shared_rows.h).
    ops::GatheredRows gathered = {};
    // Rows of the last step's result.
    ops::ScatteredRows scattered = {};
  };
  // Later calls need addresses of the same alignment. Errors: no device, no memory to tune in, unsupported shared rows.
  static Result<DeviceLaunches> make(Plan plan, const Places& places, const How& how);

  const Plan& plan() const { return plan_; }
  const std::vector<std::pair<int, Tuned>>& tuned() const { return tuned_; }  // kernel's index and result per product
  std::size_t workspace_bytes() const { return workspace_bytes_; }            // 0 if no step needs a workspace
  // Queues all steps once, in order, or those of one kernel. The workspace must be zeroed where it holds counters.
  Status queue(CUstream_st* stream, const Places& places, const ops::cuda::Workspace& workspace,
               std::optional<int> group = std::nullopt) const;

 private:
  DeviceLaunches(Plan plan, const How& how)
      : plan_(std::move(plan)), last_(how.last), gathered_(how.gathered), scattered_(how.scattered) {}
  std::optional<ops::cuda::FusedCall> product_of(const Step& step, const Places& places) const;
  Status choose(const Step& step, const Places& places, const TuneOptions& tune);
  Result<std::size_t> choose_product(const Step& step, const ops::cuda::FusedCall& product, const TuneOptions& tune);
  Status queue_step(CUstream_st* stream, const Step& step, const Places& places,
                    const ops::cuda::Workspace& workspace) const;

  Plan plan_;
  Last last_;
  ops::GatheredRows gathered_;
  ops::ScatteredRows scattered_;
  std::vector<std::variant<ops::cuda::MatmulPlan, ops::cuda::GatedPlan, ops::cuda::AttentionPlan,
                           ops::cuda::AttentionBackwardPlan>>
      chosen_ = {};  // one per step of Plan::steps
  std::vector<std::pair<int, Tuned>> tuned_ = {};
  std::size_t workspace_bytes_ = 0;
};

// Returns why no CUDA kernel can run this step, as a sentence, or nullopt. Needs no device.
std::optional<std::string> refuse_on_device(const Step& step);

}  // namespace ridge
