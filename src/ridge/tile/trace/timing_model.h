// Timing model of a recorded program, the simplest one that still shows a pipeline: a block's port transfers one copy
// after another, each of which arrives a latency later; its tensor cores run one multiply after another; a second port
// transfers the stores; and threads take time only to move sums. With 32 KiB a stage, 64 bytes a tick and a latency of
// 600, the first multiply starts at tick 1112, and three slots keep the port busy (96 KiB in flight) while two do not.
#pragma once

#include "ridge/base/timeline.h"
#include "ridge/tile/trace/recorded_program.h"

namespace ridge::tile::trace {

struct Rates {  // rates of one block; a tick lasts 1 / ticks_per_second seconds
  double ticks_per_second = 0;
  double copy_bytes_per_tick = 64;
  std::int64_t copy_latency = 600;
  double flops_per_tick = 8192;
  double store_bytes_per_tick = 64;
  std::int64_t store_latency = 600;
  double thread_bytes_per_tick = 128;  // rate at which a group moves sums to its buffers
};

// Returns a timeline with one lane for each port, and one for the first thread of each role. Events of a lane do not
// overlap. The program must be free of errors (`check_schedule`); a deadlock ends the timeline early.
Timeline simulate_timeline(const RecordedProgram& program, const Rates& rates);

}  // namespace ridge::tile::trace
