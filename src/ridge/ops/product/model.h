// Predictions for a single product: on Hopper from the planner's time model, on a CPU from traced traffic.
#pragma once

#include "ridge/base/timeline.h"
#include "ridge/ops/model.h"
#include "ridge/ops/product/problem.h"

namespace ridge::ops {

Result<Forecast> forecast(const MatmulProblem& problem, const DeviceNumbers& device);
CpuForecast cpu_forecast(const MatmulProblem& problem, int threads);
// Adds the time of packing a convolution's windows to the forecast of their product.
void add_windows(CpuForecast& forecast, const MatmulProblem& problem);

// Returns the timeline of one block of a Hopper kernel in bf16: the trace target records the kernel definition, and the
// fitted throughput sets the times. Example: a 128 x 256 x 64 block with 4 stages loads 48 KiB per stage in 650 cycles
// with 1400 cycles of latency; the tensor cores take 1024 cycles per stage, so they wait only for the first stage.
// `config` is an index of `sm90_kernel_configs`; the timeline is empty unless both operands are contiguous along k.
// `tiles` is 1 to 64, `stages` (per tile) 1 to 4096. Lanes: copies, multiplier, stores, first thread of each role.
Timeline matmul_timeline(int config, int tiles, int stages, double clock_hz);
// Returns the throughput of a block of this config.
BlockThroughput matmul_throughput(int config);

}  // namespace ridge::ops
