// Collectives of small messages between devices with peer access, each one kernel. Every rank writes its data into the
// other ranks' buffers, raises counts there, waits for its own counts and reads its own buffer. Sums are added in rank
// order in f32 (integers exactly) and rounded once, so all ranks get the same bits.
#pragma once

#include <array>

#include "ridge/base/dtype.h"
#include "ridge/device/peers.h"

namespace ridge::device {

inline constexpr int max_small_ranks = 8;
inline constexpr int max_small_blocks = 64;

// Layout of a rank's receive buffer: two halves with a slot for each rank, then counts of how often each block of each
// rank has written. A rank may write the next call's data while another rank still reads this call's.
struct SmallBufferLayout {
  std::int64_t slot_bytes = 0;  // A multiple of 16.
  int ranks = 1;
  constexpr std::int64_t data_bytes() const { return 2 * slot_bytes * ranks; }
  std::int64_t bytes() const;  // Includes the counts, which the caller sets to 0.
};

using CallCount = std::uint32_t;
struct SmallMessage {
  int rank = 0;
  std::array<std::byte*, max_small_ranks> buffers = {};  // Addresses on this device.
  CallCount* call_counts = nullptr;                      // `max_small_blocks` counts, 0 at first.
  // Rank r receives `bytes` from `from` + r * `stride_bytes`. Its data goes to `to` + r * bytes, or is summed at `to`.
  const std::byte* from = nullptr;
  std::byte* to = nullptr;
  std::int64_t bytes = 0, stride_bytes = 0;
  bool is_sum = false;
  DType dtype = DType::f32;
};
// `from`, `to` and `stride_bytes` are multiples of 16. Memory is read and written up to the next multiple of 16 bytes.
// All ranks pass the same `bytes`. Errors: `bytes` exceeds `slot_bytes`; there are more than `max_small_ranks` ranks.
Status queue_small_collective(const Queue& queue, const SmallBufferLayout& buffer, const SmallMessage& message);

}  // namespace ridge::device
