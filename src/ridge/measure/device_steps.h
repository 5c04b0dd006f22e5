// A plan's steps on a CUDA device, and the one way in which they are timed: operands rotate through copies so that
// consecutive launches touch at least 256 MiB and find the L2 cold, launches sit in one graph of about two
// milliseconds, events time a replay, and a sample is a replay's time over its launches.
#pragma once

#include <optional>
#include <vector>

#include "ridge/device/device.h"
#include "ridge/measure/device/launches.h"
#include "ridge/measure/passes.h"
#include "ridge/measure/reference.h"
#include "ridge/measure/timer.h"

namespace ridge {

// ops/fused/cuda.h says how exact a gelu behind a device's product is, ops/gated/cuda.h how the gated layer's.
GeluSlack gelu_slack(const Plan& plan, int group);

class DeviceSteps {
 public:
  // Device memory for the buffers of all steps, or of one kernel's, and a plan for each product. Errors: no device, a
  // step that CUDA kernels do not run, not enough memory.
  static Result<DeviceSteps> make(Plan plan, const TuneOptions& tune, std::optional<int> group = std::nullopt);
  // Where `lent` has memory for one of the plan's buffers, that one is used.
  using How = DeviceLaunches::How;
  static Result<DeviceSteps> make_in(const std::vector<std::byte*>& lent, Plan plan, const How& how);

  const ops::cuda::Queue& queue() const { return queue_; }
  std::byte* data(int buffer) const { return memory_[static_cast<std::size_t>(buffer)].data(); }
  const Plan& plan() const { return launches_.plan(); }
  const std::vector<std::pair<int, Tuned>>& tuned() const { return launches_.tuned(); }
  Status fill_normal();      // every buffer: sizes alone matter then
  Status queue_all() const;  // all steps once, in order
  // Those of one kernel, or all, on a queue of the caller's.
  Status queue_on(const ops::cuda::Queue& queue, std::optional<int> group = std::nullopt) const;
  // Seconds of the steps of one kernel, or of all of them, once each; `samples` of them at least.
  Result<std::vector<double>> time(std::optional<int> group, Passes passes);

 private:
  using Places = DeviceLaunches::Places;
  DeviceSteps(DeviceLaunches launches, ops::cuda::Queue queue, std::vector<ops::cuda::Memory> memory, Places places)
      : launches_(std::move(launches)),
        queue_(std::move(queue)),
        memory_(std::move(memory)),
        places_(std::move(places)) {}
  static Result<DeviceSteps> made(Plan plan, const How& how, const std::vector<std::byte*>& lent);
  Status prepare();         // workspace and what counts
  Status count_up() const;  // index(T)
  Status queue_steps(CUstream_st* stream, std::optional<int> group, const Places& places) const;
  Result<std::vector<Places>> rotated(std::optional<int> group, std::vector<ops::cuda::Memory>& pool) const;

  DeviceLaunches launches_;
  ops::cuda::Queue queue_;
  std::vector<ops::cuda::Memory> memory_;
  Places places_;
  std::vector<ops::cuda::Memory> workspace_ = {};  // one
};

}  // namespace ridge
