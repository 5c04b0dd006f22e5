// Predicts traffic, instructions and times of pointwise chains.
#pragma once

#include <functional>

#include "ridge/ops/chain/problem.h"
#include "ridge/ops/model.h"

namespace ridge::ops {

double element_count(const std::vector<std::int64_t>& extents);
double total_tensor_bytes(const std::vector<ChainTensor>& tensors,
                          const std::vector<std::int64_t>& extents);  // Counts each tensor once.

// True unless the step stores more than 16 bits. If true for all steps, functions use cheaper approximations.
bool can_approximate(const std::vector<ChainTensor>& tensors, const ChainStep& step);
// Returns the instructions per element of a step in generated CUDA kernels (ops/function/device_math.h).
double instructions_per_step(const ChainStep& step, bool approximate);
double instruction_count(const ChainProgram& chain);  // Instructions of all elements.
double traffic_bytes(const ChainProgram& chain);      // Counts each tensor once.

Result<Forecast> forecast(const ChainProgram& chain, const DeviceNumbers& device);

// Returns the time of a step's function per element, in FLOPs at the CPU's vector peak.
using FunctionFlops = std::function<double(Function)>;
CpuForecast cpu_forecast(const ChainProgram& chain, const FunctionFlops& flops_of);

}  // namespace ridge::ops
