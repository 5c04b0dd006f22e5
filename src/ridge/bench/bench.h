// Entry points of `ridge bench matmul`.
#pragma once

#include <string>

#include "ridge/bench/cpu_benchmark.h"
#include "ridge/bench/device_benchmark.h"

namespace ridge {

// Benchmarks the products of a CSV file (benchmark_shape.h) against other libraries on this CPU (an empty `shapes`
// selects data/cpu_shapes.csv), or against cuBLASLt on a device.
Result<CpuBenchmark> bench_matmul(const std::string& shapes, const CpuBenchmarkOptions& options);
Result<DeviceBenchmark> bench_device_matmul(const std::string& shapes, const DeviceBenchmarkOptions& options);

}  // namespace ridge
