// A program on a CUDA device: inputs carried there, everything run and timed (device_steps.h), results carried back.
// Internal to run().
#pragma once

#include "ridge/measure/fill.h"
#include "ridge/measure/run.h"
#include "ridge/plan/plan.h"

namespace ridge {

struct DeviceSamples {
  std::vector<std::vector<double>> ops;  // s, of each kernel
  std::vector<double> passes;            // s, of the whole program
  DeviceNotes notes;
  Clocks clocks;
  std::vector<std::optional<Regime>> regimes;  // of each kernel
  std::vector<std::pair<int, Tuned>> tuned;    // by kernel
};

// The plan's operations, one for each of its kernels.
struct DeviceWork {
  const Program& program;
  const Explanation& explanation;
  const Plan& plan;
};
// `arrays`: of Program::tensors, on the host: the inputs are read, everything else is written. Errors: no device, not
// enough memory there.
Result<DeviceSamples> run_on_device(const DeviceWork& work, const std::vector<Array>& arrays,
                                    const RunOptions& options);

// The groups with steps that are generated where that is possible, and elsewhere interpreted; in order.
std::vector<int> generated_groups(const Plan& plan);

// Seconds at half, once and double of a dimension, and the bound's at the same sizes. What would be left of the time if
// the bound were nothing, by the line through half and double, does not depend on the size of the work: from half of
// the time on it is what binds.
Regime regime_of(const std::string& dim, const std::vector<std::pair<double, double>>& bound_and_measured,
                 std::optional<Limiter> limiter);

}  // namespace ridge
