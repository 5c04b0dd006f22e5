// Predictions for loops: bytes that they move to and from memory, and the time of their instructions. Routed products
// without a grouped product are plain loops over single elements on a CPU; these have no prediction.
#pragma once

#include <functional>

#include "ridge/ops/loops/problem.h"
#include "ridge/ops/model.h"

namespace ridge::ops {

// Measured over predicted time of these kernels, on two busy cores and, as an estimate, on a device: wider than that of
// fitted kernels.
inline constexpr PredictionSpread loops_spread{0.5, 1, 2.5};

// Returns the time of a function per element, in FLOPs at the CPU's vector peak.
using LoopFunctionFlops = std::function<double(Function)>;

inline CpuForecast cpu_forecast(const RoutedProductLoops&, int) { return {.kernel = "loops", .has_model = false}; }
CpuForecast cpu_forecast(const ConvLoops& l, int threads);
CpuForecast cpu_forecast(const GatherScatterLoops& l, int threads);
CpuForecast cpu_forecast(const RunningSumLoops& l, int threads);
CpuForecast cpu_forecast(const TopKLoops& l, int threads);
CpuForecast cpu_forecast(const PoolLoops& l, int threads);
CpuForecast cpu_forecast(const FoldLoops& l, int threads);
CpuForecast cpu_forecast(const RotaryLoops& l, int threads);
CpuForecast cpu_forecast(const RecurrenceLoops& l, int threads, const LoopFunctionFlops& flops_of);
CpuForecast cpu_forecast(const QuantizeLoops& l, int threads);
CpuForecast cpu_forecast(const DequantizeLoops& l, int threads);

Result<Forecast> forecast(const ConvLoops& l, const DeviceNumbers& device);
Result<Forecast> forecast(const GatherScatterLoops& l, const DeviceNumbers& device);
Result<Forecast> forecast(const RunningSumLoops& l, const DeviceNumbers& device);
Result<Forecast> forecast(const TopKLoops& l, const DeviceNumbers& device);
Result<Forecast> forecast(const PoolLoops& l, const DeviceNumbers& device);
Result<Forecast> forecast(const FoldLoops& l, const DeviceNumbers& device);
Result<Forecast> forecast(const RotaryLoops& l, const DeviceNumbers& device);
Result<Forecast> forecast(const RecurrenceLoops& l, const DeviceNumbers& device);
Result<Forecast> forecast(const QuantizeLoops& l, const DeviceNumbers& device);
Result<Forecast> forecast(const DequantizeLoops& l, const DeviceNumbers& device);
// Each row reads the weights of its expert.
Result<Forecast> forecast(const RoutedProductLoops& l, const DeviceNumbers& device);

}  // namespace ridge::ops
