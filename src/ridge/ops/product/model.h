// What a product moves and takes, alone. On a Hopper device from the menu and the planner's closed form.
#pragma once

#include "ridge/base/timeline.h"
#include "ridge/ops/model.h"
#include "ridge/ops/product/problem.h"

namespace ridge::ops {

Result<Forecast> forecast(const MatmulProblem& problem, const DeviceNumbers& device);
CpuForecast cpu_forecast(const MatmulProblem& problem, int threads);

// One block of a Hopper kernel as a pipeline: its real text, written down by the trace target and paced with the fitted
// times. A block of 128 x 256 x 64 with 4 stages loads 48 KiB a stage in 650 cycles, and the first arrives 1400 later;
// the tensor cores take 1024 for it, so from the second stage on they wait for nothing. `config` of sm90_menu, with
// both operands contiguous along k (others: an empty timeline); 1 to 64 output tiles, each of 1 to 4096 stages; bf16.
// Lanes: copies, multiplier, stores, then what each role's first thread does or waits for.
Timeline matmul_timeline(int config, int tiles, int stages, double clock_hz);
// The ports of a block that runs this row of sm90_menu.
BlockPace matmul_pace(int config);

}  // namespace ridge::ops
