// How long a recorded program takes, by the simplest model that still shows a pipeline: copies pass one after the other
// through a block's port and arrive a latency later, multiplies pass one after the other through its multiplier, stores
// through their port, and threads take time only to move sums. With 32 KiB a stage, 64 bytes a tick and a latency of
// 600, the first multiply starts at tick 1112, and three slots keep the port busy (96 KiB in flight) while two do not.
#pragma once

#include "ridge/base/timeline.h"
#include "ridge/tile/trace/protocol.h"

namespace ridge::tile::trace {

struct Rates {  // of one block; a tick is whatever ticks_per_second says
  double ticks_per_second = 0;
  double copy_bytes_per_tick = 64;
  std::int64_t copy_latency = 600;
  double flops_per_tick = 8192;
  double store_bytes_per_tick = 64;
  std::int64_t store_latency = 600;
  double thread_bytes_per_tick = 128;  // sums that a group moves to its buffers
};

// A lane for each port, and for each role what its first thread does or waits for. On one lane events are disjoint. The
// program must be one that check() finds clean; else time may stand still, and the lanes end there.
Timeline pace(const Program& program, const Rates& rates);

}  // namespace ridge::tile::trace
