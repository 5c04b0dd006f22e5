// What a product takes whose sums go through a chain before they are stored, and whether a device's kernel that does so
// is worth its while: what two kernels do in less time stays two.
#pragma once

#include <optional>
#include <string>

#include "ridge/ops/fused/problem.h"
#include "ridge/ops/model.h"

namespace ridge::ops {

// Why no kernel of the device does this, as a sentence; none: one does.
namespace cuda {
std::optional<std::string> refuse(const FusedMatmul& problem);
}

Result<Forecast> forecast(const FusedMatmul& fused, const DeviceNumbers& device);
CpuForecast cpu_forecast(const FusedMatmul& fused, int threads);

// Why it takes longer as one kernel, as a sentence; none: it does not. The device must not refuse it.
std::optional<std::string> slow_epilogue(const FusedMatmul& fused);

}  // namespace ridge::ops
