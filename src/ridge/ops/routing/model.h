// Time model of routing rows: each row is read once and written once.
#pragma once

#include "ridge/ops/model.h"
#include "ridge/ops/routing/problem.h"

namespace ridge::ops {

inline CpuForecast cpu_forecast(const RoutingProblem&, int) { return {.kernel = "routed rows"}; }
Result<Forecast> forecast(const RoutingProblem& rows, const DeviceNumbers& device);

}  // namespace ridge::ops
