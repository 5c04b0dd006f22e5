// Arrays of a vector kernel in device memory, and its timing as a CUDA graph of launches.
#pragma once

#include <fmt/format.h>

#include <optional>
#include <string>
#include <vector>

#include "ridge/bench/comparison.h"
#include "ridge/bench/vector_kernel.h"
#include "ridge/device/device.h"

namespace ridge {

// Sets device and driver.
void describe_device(Comparison& comparison, const device::DeviceProperties& properties);

// Work that a CUDA graph repeats, so that launches from the host do not limit it.
struct RecordedWork {
  device::RecordedGraph graph;
  std::int64_t repetitions = 1;
};
// Records work(0), work(1), …
Result<RecordedWork> record_work(const device::Queue& queue, std::int64_t repetitions,
                                 const std::function<Status(std::int64_t)>& work);
// Returns the seconds of one repetition.
Result<double> time_work(const device::Queue& queue, const RecordedWork& recorded);

class DeviceArrays {
 public:
  // Allocates `count` arrays of equal size, fills the first `inputs` with normal numbers and poisons the others. Input
  // i has the seed `seed` + i.
  static Result<DeviceArrays> make(DType dtype, std::int64_t elements, std::size_t count, std::size_t inputs,
                                   std::uint32_t seed);

  const device::Queue& queue() const { return queue_; }
  std::int64_t elements() const { return elements_; }
  std::int64_t bytes() const { return elements_ * dtype_bits(dtype_) / 8; }  // Size of an array
  Result<std::vector<double>> read_values(std::size_t array, std::int64_t first, std::int64_t count) const;
  Status poison(std::size_t array) const { return queue_.set_bytes(arrays_[array].data(), 0xff, bytes()); }

  Status launch_kernel(const KernelStep& step) const;
  // Copies `total` bytes from array 0 to the last array, from the start again after each array.
  Status launch_copy(std::int64_t total) const;
  // Returns the seconds of all steps, of which a graph of at least four launches is recorded.
  Result<double> time_steps(const std::vector<KernelStep>& steps) const;

 private:
  DeviceArrays(device::Queue queue, DType dtype, std::int64_t elements)
      : queue_(std::move(queue)), dtype_(dtype), elements_(elements) {}
  device::Queue queue_;
  DType dtype_;
  std::int64_t elements_;
  std::vector<device::DeviceBuffer> arrays_ = {};
};

}  // namespace ridge
