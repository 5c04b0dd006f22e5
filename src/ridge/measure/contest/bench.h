// Entry points of `ridge bench matmul`.
#pragma once

#include <string>

#include "ridge/measure/contest/contest.h"
#include "ridge/measure/contest/device_contest.h"

namespace ridge {

// Benchmarks the products of a CSV file (benchmark_shape.h) against other libraries on this CPU (an empty `shapes`
// selects data/cpu_shapes.csv), or against cuBLASLt on a device.
Result<Contest> bench(const std::string& shapes, const ContestOptions& options);
Result<DeviceContest> bench_device(const std::string& shapes, const DeviceContestOptions& options);

}  // namespace ridge
