// A menu kernel's block as the metapipe that it is: load, compute and store, each busy while the others are.
#pragma once

#include <string>

#include "ridge/base/result.h"
#include "ridge/base/timeline.h"

namespace ridge {

struct KernelTimelineOptions {
  std::string kernel = "sm90_128x256x64_cooperative";
  std::int64_t k = 1024;   // of the product; of attention the keys
  std::int64_t tiles = 3;  // of the output, one after the other in this block
};

struct KernelTimeline {
  std::string kernel;
  std::int64_t k = 0, tiles = 0, stages = 0;  // stages of a tile
  Timeline timeline;
  std::int64_t cycles = 0;
  std::int64_t load = 0, compute = 0, store = 0;  // cycles in which that port is busy
  std::int64_t hidden_loads = 0;                  // cycles of load or store during which it multiplies
  double clock_hz = 0;
};

// Errors: a name that is no kernel's, an operand that does not lie along k, counts out of range.
Result<KernelTimeline> kernel_timeline(const KernelTimelineOptions& options);

}  // namespace ridge
