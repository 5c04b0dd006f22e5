// Predictions for loops: no timings exist, so a plan has only their name and bytes. No CUDA device supports them.
#pragma once

#include "ridge/ops/loops/problem.h"
#include "ridge/ops/model.h"

namespace ridge::ops {

inline CpuForecast cpu_forecast(const ConvLoops&, int) { return {.kernel = "loops"}; }
inline CpuForecast cpu_forecast(const IndexLoops&, int) { return {.kernel = "loops"}; }
inline CpuForecast cpu_forecast(const RunningLoops&, int) { return {.kernel = "loops"}; }

inline CpuForecast cpu_forecast(const TopLoops&, int) { return {.kernel = "loops"}; }
inline CpuForecast cpu_forecast(const RoutedLoops&, int) { return {.kernel = "loops"}; }
inline CpuForecast cpu_forecast(const ScanLoops&, int) { return {.kernel = "loops"}; }

inline CpuForecast cpu_forecast(const QuantizeLoops&, int) { return {.kernel = "loops"}; }
inline CpuForecast cpu_forecast(const ProductLoops&, int) { return {.kernel = "loops"}; }

Result<Forecast> forecast(const QuantizeLoops& quantize, const DeviceNumbers& device);
Result<Forecast> forecast(const ProductLoops& product, const DeviceNumbers& device);
Result<Forecast> forecast(const TopLoops& top, const DeviceNumbers& device);
Result<Forecast> forecast(const RoutedLoops& routed, const DeviceNumbers& device);
Result<Forecast> forecast(const ScanLoops& scan, const DeviceNumbers& device);
Result<Forecast> forecast(const ConvLoops& conv, const DeviceNumbers& device);
Result<Forecast> forecast(const IndexLoops& indexed, const DeviceNumbers& device);
Result<Forecast> forecast(const RunningLoops& running, const DeviceNumbers& device);

}  // namespace ridge::ops
