// Predictions for loops: no timings exist, so a plan has only their name and bytes. No CUDA device supports them.
#pragma once

#include "ridge/ops/loops/problem.h"
#include "ridge/ops/model.h"

namespace ridge::ops {

inline CpuForecast cpu_forecast(const ConvLoops&, int) { return {.kernel = "loops"}; }
inline CpuForecast cpu_forecast(const GatherScatterLoops&, int) { return {.kernel = "loops"}; }
inline CpuForecast cpu_forecast(const RunningSumLoops&, int) { return {.kernel = "loops"}; }

inline CpuForecast cpu_forecast(const TopKLoops&, int) { return {.kernel = "loops"}; }
inline CpuForecast cpu_forecast(const RoutedProductLoops&, int) { return {.kernel = "loops"}; }
inline CpuForecast cpu_forecast(const RecurrenceLoops&, int) { return {.kernel = "loops"}; }

inline CpuForecast cpu_forecast(const QuantizeLoops&, int) { return {.kernel = "loops"}; }
inline CpuForecast cpu_forecast(const ScaledProductLoops&, int) { return {.kernel = "loops"}; }

Result<Forecast> forecast(const QuantizeLoops& quantize, const DeviceNumbers& device);
Result<Forecast> forecast(const ScaledProductLoops& product, const DeviceNumbers& device);
Result<Forecast> forecast(const TopKLoops& top, const DeviceNumbers& device);
Result<Forecast> forecast(const RoutedProductLoops& routed, const DeviceNumbers& device);
Result<Forecast> forecast(const RecurrenceLoops& scan, const DeviceNumbers& device);
Result<Forecast> forecast(const ConvLoops& conv, const DeviceNumbers& device);
Result<Forecast> forecast(const GatherScatterLoops& indexed, const DeviceNumbers& device);
Result<Forecast> forecast(const RunningSumLoops& running, const DeviceNumbers& device);

}  // namespace ridge::ops
