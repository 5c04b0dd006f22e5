// What bringing rows to their groups takes: their bytes, once each way.
#pragma once

#include "ridge/ops/model.h"
#include "ridge/ops/routing/problem.h"

namespace ridge::ops {

inline CpuForecast cpu_forecast(const RoutedRows&, int) { return {.kernel = "routed rows"}; }
Result<Forecast> forecast(const RoutedRows& rows, const DeviceNumbers& device);

}  // namespace ridge::ops
