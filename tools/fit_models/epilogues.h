// Reads data/timings/fused: times of a product or convolution whose kernel also computes its epilogue. The constants of
// epilogues in kernels.csv are fitted to one half of the sites, and the other half shows the error. A site is n and k.
#pragma once

#include <string>
#include <vector>

#include "ridge/ops/fitted.h"
#include "ridge/ops/product/cuda.h"

namespace ridge::fit {

struct TimedEpilogue {
  ops::cuda::MatmulCall call;
  ops::cuda::MatmulPlan plan;  // the plan of this build, with its predicted time of the product
  double measured_s = 0;
  bool is_held_out = false;
};

Result<std::string> read_epilogue_day(const std::string& root);
// Errors: a file that cannot be read, a program that does not run as one kernel, a timing on another device.
Result<std::vector<TimedEpilogue>> read_epilogues(const std::string& root, const std::string& device_name,
                                                  const ops::DeviceNumbers& device);

// Returns measured over predicted times, with the current kernel_constants().
std::vector<double> epilogue_ratios(const std::vector<TimedEpilogue>& timings, bool held_out,
                                    const ops::DeviceNumbers& device);

}  // namespace ridge::fit
