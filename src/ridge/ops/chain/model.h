// Traffic (each tensor once), instructions and predicted times of pointwise chains.
#pragma once

#include "ridge/ops/chain/problem.h"
#include "ridge/ops/model.h"

namespace ridge::ops {

double elements_of(const std::vector<std::int64_t>& extents);
double bytes_of(const std::vector<ChainTensor>& tensors,
                const std::vector<std::int64_t>& extents);  // Each tensor once.

// True unless the step stores more than 16 bits. If it holds for all steps, functions use cheaper approximations.
bool can_approximate(const std::vector<ChainTensor>& tensors, const ChainStep& step);
// Per element, as in generated CUDA kernels (ops/function/device_math.h).
double instruction_count(const ChainStep& step, bool approximate);
double instruction_count(const ChainProgram& chain);  // Counts all elements.
double traffic_bytes(const ChainProgram& chain);      // Bytes.

Result<Forecast> forecast(const ChainProgram& chain, const DeviceNumbers& device);
CpuForecast cpu_forecast(const ChainProgram& chain, int threads);

}  // namespace ridge::ops
