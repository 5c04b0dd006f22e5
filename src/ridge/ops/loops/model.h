// Predictions for loops on a CPU: bytes that they move to and from memory, and the time of their instructions. No CUDA
// device supports them. Routed products without a grouped product are still plain loops over single elements; these
// have no prediction.
#pragma once

#include <concepts>
#include <functional>

#include "ridge/ops/loops/problem.h"
#include "ridge/ops/model.h"

namespace ridge::ops {

template <class T, class... Others>
concept IsOneOf = (std::same_as<T, Others> || ...);
template <class T>
concept ElementLoops = IsOneOf<T, RoutedProductLoops>;
template <class T>
concept VectorLoops = IsOneOf<T, ConvLoops, GatherScatterLoops, RunningSumLoops, TopKLoops, RecurrenceLoops,
                              QuantizeLoops, DequantizeLoops>;

// Returns the time of a function per element, in FLOPs at the CPU's vector peak.
using LoopFunctionFlops = std::function<double(Function)>;

inline CpuForecast cpu_forecast(const ElementLoops auto&, int) { return {.kernel = "loops", .has_model = false}; }
CpuForecast cpu_forecast(const ConvLoops& l, int threads);
CpuForecast cpu_forecast(const GatherScatterLoops& l, int threads);
CpuForecast cpu_forecast(const RunningSumLoops& l, int threads);
CpuForecast cpu_forecast(const TopKLoops& l, int threads);
CpuForecast cpu_forecast(const RecurrenceLoops& l, int threads, const LoopFunctionFlops& flops_of);
CpuForecast cpu_forecast(const QuantizeLoops& l, int threads);
CpuForecast cpu_forecast(const DequantizeLoops& l, int threads);

template <class T>
requires ElementLoops<T> || VectorLoops<T> Result<Forecast> forecast(const T&, const DeviceNumbers&) {
  return input_error("expected a CPU: no kernel on a device computes this statement", "--on cpu");
}

}  // namespace ridge::ops
