// Report of the matmul benchmark on a CUDA device, as text and as JSON ("ridge.device_contest/2").
#pragma once

#include <string>

#include "ridge/bench/device_benchmark.h"
#include "ridge/report/table.h"

namespace ridge {

std::string format_device_benchmark(const DeviceBenchmark& benchmark, const TextStyle& style = {});
std::string device_benchmark_json(const DeviceBenchmark& benchmark);

}  // namespace ridge
