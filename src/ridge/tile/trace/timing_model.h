// Timing model of a recorded program, the simplest one that still shows a pipeline. A block's load port transfers one
// copy after another; each copy arrives `copy_latency` later. Its tensor cores run one multiply after another, and a
// second port transfers the stores. Threads take time only to move sums to buffers. With stages of 32 KiB, 64 bytes per
// tick and a latency of 600 ticks, the first multiply starts at tick 1112; three slots (96 KiB in flight) keep the port
// busy, two do not.
#pragma once

#include "ridge/base/timeline.h"
#include "ridge/tile/trace/recorded_program.h"

namespace ridge::tile::trace {

struct BlockRates {  // rates of one thread block; a tick lasts 1 / ticks_per_second seconds
  double ticks_per_second = 0;
  double copy_bytes_per_tick = 64;
  std::int64_t copy_latency = 600;  // ticks
  double flops_per_tick = 8192;
  double store_bytes_per_tick = 64;
  std::int64_t store_latency = 600;    // ticks
  double thread_bytes_per_tick = 128;  // rate at which a group moves sums to its buffers
};

// Returns a timeline with one lane for each port and for the tensor cores, and one for the first thread of each role.
// Events of a lane do not overlap. `check_schedule` must find no error in the program; a deadlock ends the timeline
// early.
Timeline simulate_timeline(const RecordedProgram& program, const BlockRates& rates);

}  // namespace ridge::tile::trace
