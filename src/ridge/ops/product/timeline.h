// One block of a Hopper kernel as a pipeline: its real text, written down by the trace target and paced with the times
// that were fitted on an H200. A block of 128 x 256 x 64 with 4 stages loads 48 KiB a stage in 650 cycles, and the
// first arrives 1400 later; the tensor cores take 1024 for it, so from the second stage on they wait for nothing.
#pragma once

#include <cstdint>

#include "ridge/base/timeline.h"

namespace ridge::ops {

// `config` of sm90_menu, with both operands contiguous along k (others: an empty timeline); so many output tiles, each
// of `stages` stages; bf16. Lanes: copies, multiplier, stores, then what each role's first thread does or waits for. 1
// to 64 tiles and 1 to 4096 stages.
Timeline matmul_timeline(int config, int tiles, int stages);

}  // namespace ridge::ops
