// Runs a program on a CUDA device: copies inputs to it, runs and times everything (device_steps.h), copies results
// back. Used only by `run_program`.
#pragma once

#include "ridge/measure/run.h"
#include "ridge/plan/plan.h"
#include "ridge/run/memory.h"

namespace ridge {

struct DeviceSamples {
  std::vector<std::vector<double>> ops;  // seconds of each kernel
  std::vector<double> passes;            // seconds of the whole program
  DeviceMeasurement notes;
  ClockReadings clocks;
  std::vector<std::optional<MeasuredBound>> measured_bounds;  // one entry per kernel
  std::vector<std::pair<int, TuningResult>> tuned;            // index of the kernel, result
};

// The explanation must have one operation per kernel of the plan.
struct DeviceRunRequest {
  const Program& program;
  const Explanation& explanation;
  const Plan& plan;
};
// `arrays` has the host memory of Program::tensors: inputs are read, others written. Errors: no device, no memory.
Result<DeviceSamples> run_on_device(const DeviceRunRequest& work, const std::vector<Array>& arrays,
                                    const RunOptions& options);

// Returns, in order, the groups with row functions, which take one block per row without NVRTC.
std::vector<int> list_row_function_groups(const Plan& plan);

// Takes (bound, measured) seconds at half, actual and double size of a dimension. The line through half and double,
// extrapolated to a bound of zero, gives the time that does not depend on the size. If that is half of the time or
// more, overhead is the limiter.
MeasuredBound classify_bound(const std::string& dim, const std::vector<std::pair<double, double>>& bound_and_measured,
                             std::optional<Limiter> limiter);

}  // namespace ridge
