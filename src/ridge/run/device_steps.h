// Runs and times a plan's steps on a CUDA device. Operands rotate through copies so that consecutive launches touch at
// least 256 MiB and find the L2 cold. Launches are recorded in one graph of about two milliseconds, events time a
// replay, and a sample is the replay's time divided by its launches.
#pragma once

#include <optional>
#include <vector>

#include "ridge/base/timer.h"
#include "ridge/device/device.h"
#include "ridge/run/launches.h"
#include "ridge/run/memory.h"
#include "ridge/run/pass_counter.h"

namespace ridge {

class DeviceSteps {
 public:
  // Allocates device memory for the buffers of all steps, or of one kernel's, and chooses a plan for each product.
  // Errors: no device, a step without a CUDA kernel, not enough memory.
  static Result<DeviceSteps> make(Plan plan, const TuneOptions& tune, std::optional<int> group = std::nullopt);
  // Uses the memory of `external_buffers` for the plan's buffers where it is not null.
  using LaunchOptions = DeviceLaunches::LaunchOptions;
  static Result<DeviceSteps> make_with_buffers(const std::vector<std::byte*>& external_buffers, Plan plan,
                                               const LaunchOptions& launch_options);

  const device::Queue& queue() const { return queue_; }
  std::byte* buffer_data(int buffer) const { return memory_[buffer].data(); }
  const Plan& plan() const { return launches_.plan(); }
  const std::vector<std::pair<int, TuningResult>>& tuning_results() const { return launches_.tuning_results(); }
  Status fill_normal();            // fills every buffer with random normals, for timings where only sizes matter
  Status queue_all_steps() const;  // queues all steps once, in order
  // Queues all steps, or those of one kernel, on the caller's queue.
  Status queue_steps_on(const device::Queue& queue, std::optional<int> group = std::nullopt) const;
  // Returns samples of the seconds that all steps, or those of one kernel, take once.
  Result<std::vector<double>> time_steps(std::optional<int> group, PassCounter passes);

 private:
  using BufferAddresses = DeviceLaunches::BufferAddresses;
  DeviceSteps(DeviceLaunches launches, device::Queue queue, std::vector<device::DeviceBuffer> memory,
              BufferAddresses addresses)
      : launches_(std::move(launches)),
        queue_(std::move(queue)),
        memory_(std::move(memory)),
        addresses_(std::move(addresses)) {}
  static Result<DeviceSteps> allocate_and_make(Plan plan, const LaunchOptions& launch_options,
                                               const std::vector<std::byte*>& external_buffers);
  Status prepare_workspace();          // allocates the workspace, zeroes its counters and writes index buffers
  Status write_index_buffers() const;  // fills buffers that hold index(T)
  Status write_scattered_indices(int buffer, std::int64_t extent) const;
  Status fill_blocks(int buffer) const;
  Status queue_steps(CUstream_st* stream, std::optional<int> group, const BufferAddresses& addresses) const;
  Result<std::vector<BufferAddresses>> make_rotating_copies(std::optional<int> group,
                                                            std::vector<device::DeviceBuffer>& pool) const;

  DeviceLaunches launches_;
  device::Queue queue_;
  std::vector<device::DeviceBuffer> memory_;
  BufferAddresses addresses_;
  std::vector<device::DeviceBuffer> workspace_ = {};  // one entry
};

}  // namespace ridge
