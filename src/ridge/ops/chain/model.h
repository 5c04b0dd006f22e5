// What a pointwise chain moves and takes: each tensor once, and the instructions of its functions.
#pragma once

#include "ridge/ops/chain/problem.h"
#include "ridge/ops/model.h"

namespace ridge::ops {

double elements_of(const std::vector<std::int64_t>& extents);
double bytes_of(const std::vector<ChainTensor>& tensors,
                const std::vector<std::int64_t>& extents);  // each once

// Whether nothing that the step stores is wider than 16 bits: where no step's is, functions have cheaper forms.
bool is_rough(const std::vector<ChainTensor>& tensors, const ChainStep& step);
// An element's, as a generated CUDA kernel takes them (ops/function/device_math.h).
double instructions(const ChainStep& step, bool rough);
double instructions(const ChainProgram& chain);  // of all elements
double traffic(const ChainProgram& chain);       // bytes

Result<Forecast> forecast(const ChainProgram& chain, const DeviceNumbers& device);
CpuForecast cpu_forecast(const ChainProgram& chain, int threads);

}  // namespace ridge::ops
