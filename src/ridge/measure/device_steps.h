// A plan's steps on a CUDA device, and the one way in which they are timed: operands rotate through copies so that
// consecutive launches touch at least 256 MiB and find the L2 cold, launches sit in one graph of about two
// milliseconds, events time a replay, and a sample is a replay's time over its launches.
#pragma once

#include <optional>
#include <variant>
#include <vector>

#include "ridge/device/device.h"
#include "ridge/measure/passes.h"
#include "ridge/measure/timer.h"
#include "ridge/measure/tune.h"
#include "ridge/ops/attention/cuda.h"
#include "ridge/ops/fused/cuda.h"
#include "ridge/plan/plan.h"

namespace ridge {

class DeviceSteps {
 public:
  // Device memory for the buffers of all steps, or of one kernel's, and a plan for each product. Errors: no device, a
  // step that CUDA kernels do not run, not enough memory.
  static Result<DeviceSteps> make(Plan plan, const TuneOptions& tune, std::optional<int> group = std::nullopt);
  // Where `lent` has memory for one of the plan's buffers, that one is used. With Last::added the last step, which is
  // a product, adds what it makes, rounded to the result's format, to what its result holds.
  enum class Last { stored, added };
  static Result<DeviceSteps> make_in(const std::vector<std::byte*>& lent, Plan plan, const TuneOptions& tune,
                                     Last last = Last::stored);

  const ops::cuda::Queue& queue() const { return queue_; }
  std::byte* data(int buffer) const { return memory_[static_cast<std::size_t>(buffer)].data(); }
  const Plan& plan() const { return plan_; }
  const std::vector<std::pair<int, Tuned>>& tuned() const { return tuned_; }  // products' plans, by kernel
  Status fill_normal();                                                       // every buffer: sizes alone matter then
  Status queue_all() const;                                                   // all steps once, in order
  // Those of one kernel, or all, on a queue of the caller's.
  Status queue_on(const ops::cuda::Queue& queue, std::optional<int> group = std::nullopt) const;
  // Seconds of the steps of one kernel, or of all of them, once each; `samples` of them at least.
  Result<std::vector<double>> time(std::optional<int> group, Passes passes);

 private:
  using Places = std::vector<std::byte*>;  // of Plan::buffers; null where not needed
  DeviceSteps(Plan plan, ops::cuda::Queue queue) : plan_(std::move(plan)), queue_(std::move(queue)) {}
  struct Made {
    std::optional<int> group = {};
    std::vector<std::byte*> lent = {};
    Last last = Last::stored;
  };
  static Result<DeviceSteps> made(Plan plan, const TuneOptions& tune, Made how);
  std::optional<ops::cuda::FusedCall> product_of(const Step& step, const Places& places) const;
  Status allocate(const TuneOptions& tune, std::optional<int> group, const std::vector<std::byte*>& lent = {});
  // Chooses the plan of the step's product; bytes of workspace.
  Result<std::size_t> choose(const Step& step, const ops::cuda::FusedCall& product, const TuneOptions& tune);
  Status count_up() const;  // index(T)
  Status queue_step(CUstream_st* stream, const Step& step, const Places& places) const;
  Status queue_product(CUstream_st* stream, const Step& step, const ops::cuda::FusedCall& call) const;
  Status queue_steps(CUstream_st* stream, std::optional<int> group, const Places& places) const;
  std::vector<int> used(std::optional<int> group) const;
  Result<std::vector<Places>> rotated(std::optional<int> group, std::vector<ops::cuda::Memory>& pool) const;

  Plan plan_;
  ops::cuda::Queue queue_;
  Last last_ = Last::stored;
  std::vector<ops::cuda::Memory> memory_ = {};
  std::vector<std::variant<ops::cuda::MatmulPlan, ops::cuda::GatedPlan, ops::cuda::AttentionPlan,
                           ops::cuda::AttentionBackwardPlan>>
      products_ = {};  // of Plan::steps
  std::vector<std::pair<int, Tuned>> tuned_ = {};
  std::vector<ops::cuda::Memory> workspace_ = {};  // one
  Places places_ = {};
};

// Why CUDA kernels do not run this step, as a sentence; none: they do. Looks at no device.
std::optional<std::string> refuse_on_device(const Step& step);

}  // namespace ridge
