// Predicts the time of a product whose sums go through a chain before they are stored, and whether one fused kernel of
// the device is faster than two.
#pragma once

#include "ridge/base/reason.h"
#include "ridge/base/result.h"
#include "ridge/ops/fused/problem.h"
#include "ridge/ops/model.h"

namespace ridge::ops {

// Returns why no kernel of the device supports the problem.
namespace cuda {
Reason unsupported_reason(const FusedMatmul& problem);
}

Result<Forecast> forecast(const FusedMatmul& fused, const DeviceNumbers& device);
CpuForecast cpu_forecast(const FusedMatmul& fused, int threads);

// Returns why one fused kernel is slower than two. The device must support the problem.
Reason slow_fusion_reason(const FusedMatmul& fused);

}  // namespace ridge::ops
