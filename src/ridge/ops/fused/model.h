// Predicts the time of a product whose sums go through a chain before they are stored, and whether one fused kernel of
// the device is faster than two.
#pragma once

#include <optional>
#include <string>

#include "ridge/ops/fused/problem.h"
#include "ridge/ops/model.h"

namespace ridge::ops {

// Returns why no kernel of the device supports the problem, or nullopt if one does.
namespace cuda {
std::optional<std::string> unsupported_reason(const FusedMatmul& problem);
}

Result<Forecast> forecast(const FusedMatmul& fused, const DeviceNumbers& device);
CpuForecast cpu_forecast(const FusedMatmul& fused, int threads);

// Returns why one fused kernel is slower than two, or nullopt if it is not. The device must support the problem.
std::optional<std::string> slow_fusion_reason(const FusedMatmul& fused);

}  // namespace ridge::ops
