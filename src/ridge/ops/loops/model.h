// Predictions for loops: no timings exist, so a plan has only their name and bytes. No CUDA device supports them.
#pragma once

#include <concepts>

#include "ridge/ops/loops/problem.h"
#include "ridge/ops/model.h"

namespace ridge::ops {

template <class T, class... Others>
concept IsOneOf = (std::same_as<T, Others> || ...);
template <class T>
concept Loops = IsOneOf<T, ConvLoops, GatherScatterLoops, RunningSumLoops, TopKLoops, RoutedProductLoops,
                        RecurrenceLoops, QuantizeLoops, DequantizeLoops>;

inline CpuForecast cpu_forecast(const Loops auto&, int) { return {.kernel = "loops"}; }

inline Result<Forecast> forecast(const Loops auto&, const DeviceNumbers&) {
  return input_error("plain loops run only on a CPU", "--on cpu");
}

}  // namespace ridge::ops
