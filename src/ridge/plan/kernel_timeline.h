// Simulates one block of a kernel as a metapipe: load, compute and store overlap.
#pragma once

#include <string>

#include "ridge/base/result.h"
#include "ridge/base/timeline.h"

namespace ridge {

struct KernelTimelineOptions {
  std::string kernel = "sm90_128x256x64_cooperative";
  std::int64_t k = 1024;   // K of the product, or the number of keys of attention
  std::int64_t tiles = 3;  // output tiles that the block computes in sequence
};

struct KernelTimeline {
  std::string kernel;
  std::int64_t k = 0, tiles = 0, stages = 0;  // stages per tile
  Timeline timeline;
  std::int64_t total_cycles = 0;
  std::int64_t load_cycles = 0, compute_cycles = 0, store_cycles = 0;  // busy cycles of each port
  std::int64_t overlapped_cycles = 0;  // cycles of load or store that overlap with compute
  double clock_hz = 0;
};

// Errors: an unknown kernel, an operand that is not contiguous along k, counts out of range.
Result<KernelTimeline> make_kernel_timeline(const KernelTimelineOptions& options);

}  // namespace ridge
