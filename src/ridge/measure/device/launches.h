// A plan's steps as launches of CUDA kernels, with no memory of their own: how each product and each attention runs is
// chosen once, and where their buffers lie is said with every pass.
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
  using Places = std::vector<std::byte*>;  // of Plan::buffers; null where not needed

  // With Last::added the last step, which is a product, adds what it makes, rounded to the result's format, to what its
  // result holds; scattered: rows of that result. gathered: rows of the first step's A, a product (shared_rows.h).
  enum class Last { stored, added };
  struct How {
    TuneOptions tune = {};
    std::optional<int> group = {};  // products of that one alone are tuned; none: all are
    Last last = Last::stored;
    ops::GatheredRows gathered = {};
    ops::ScatteredRows scattered = {};
  };
  // For buffers that are aligned as `places`. Errors: no device, no memory to tune in, no kernel that shares such
  // rows.
  static Result<DeviceLaunches> make(Plan plan, const Places& places, const How& how);

  const Plan& plan() const { return plan_; }
  const std::vector<std::pair<int, Tuned>>& tuned() const { return tuned_; }  // products' plans, by kernel
  std::size_t workspace_bytes() const { return workspace_bytes_; }            // 0: no step needs any
  // All steps once, in order, or those of one kernel. The workspace is prepared.
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
      chosen_ = {};  // of Plan::steps
  std::vector<std::pair<int, Tuned>> tuned_ = {};
  std::size_t workspace_bytes_ = 0;
};

// Why CUDA kernels do not run this step, as a sentence; none: they do. Looks at no device.
std::optional<std::string> refuse_on_device(const Step& step);

}  // namespace ridge
