// Small collectives between devices with peer access, each as one kernel (device/small_messages.h).
#pragma once

#include <memory>
#include <vector>

#include "ridge/device/small_messages.h"
#include "ridge/run/ranks/peer_memory.h"

namespace ridge::ranks {

// Position p of the group gets `bytes` bytes from `from` + p * `stride`. Received data is added up in `to`, or stored
// there contiguously.
struct SmallCollectiveArgs {
  const std::byte* from = nullptr;
  std::byte* to = nullptr;
  std::int64_t bytes = 0, stride = 0;
  bool is_reduction = false;
  DType dtype = DType::f32;
};

class SmallCollective {
 public:
  // Upper limit on the bytes of a message; the receive buffer is 2 * ranks times as large.
  static constexpr std::int64_t max_bytes = std::int64_t{4} << 20;
  // Prepares collectives of up to `bytes` bytes in `group`, which includes this rank. Collective call of all ranks, of
  // every group. Returns null if `bytes` or the group exceeds the limits.
  static Result<std::unique_ptr<SmallCollective>> make(PeerMemory& peer_memory, const std::vector<int>& group,
                                                       std::int64_t bytes);
  Status queue_call(const device::Queue& queue, const SmallCollectiveArgs& args) const;

 private:
  explicit SmallCollective(device::DeviceBuffer buffer) : buffer_(std::move(buffer)) {}
  device::DeviceBuffer buffer_;  // receive buffer, followed by this rank's call counts
  device::SmallBufferLayout shape_;
  device::SmallMessage message_;
};

}  // namespace ridge::ranks
