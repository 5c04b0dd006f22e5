// Small collectives between devices with peer access, each as one kernel (device/small_messages.h).
#pragma once

#include <memory>
#include <vector>

#include "ridge/device/small_messages.h"
#include "ridge/measure/ranks/reach.h"

namespace ridge::ranks {

// Position p of the group gets `bytes` bytes from `from` + p * `stride`. Received data is added up in `to`, or stored
// there contiguously.
struct SmallWords {
  const std::byte* from = nullptr;
  std::byte* to = nullptr;
  std::int64_t bytes = 0, apart = 0;
  bool sums = false;
  DType dtype = DType::f32;
};

class SmallMover {
 public:
  // Upper limit on the bytes of a message; the receive buffer is 2 * ranks times as large.
  static constexpr std::int64_t most_bytes = std::int64_t{4} << 20;
  // Prepares collectives of up to `bytes` bytes in `group`, which includes this rank. Collective call of all ranks, of
  // every group. Returns null if `bytes` or the group exceeds the limits.
  static Result<std::unique_ptr<SmallMover>> make(Reach& reach, const std::vector<int>& group, std::int64_t bytes);
  Status queue(const ops::cuda::Queue& queue, const SmallWords& words) const;

 private:
  explicit SmallMover(ops::cuda::Memory room) : room_(std::move(room)) {}
  ops::cuda::Memory room_;  // receive buffer, followed by this rank's call counts
  ops::cuda::SmallRoom shape_;
  ops::cuda::SmallMessage message_;
};

}  // namespace ridge::ranks
