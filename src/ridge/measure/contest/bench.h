// What `ridge bench matmul` runs.
#pragma once

#include <string>

#include "ridge/measure/contest/contest.h"
#include "ridge/measure/contest/device_contest.h"

namespace ridge {

// Times the products of a CSV file (measure/contest/contest_shape.h) beside other libraries on this CPU (`shapes`
// empty: data/cpu_shapes.csv), or beside cuBLASLt on a device.
Result<Contest> bench(const std::string& shapes, const ContestOptions& options);
Result<DeviceContest> bench_device(const std::string& shapes, const DeviceContestOptions& options);

}  // namespace ridge
