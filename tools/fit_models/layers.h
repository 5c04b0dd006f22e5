// Times of whole layers, from which the time between kernels follows.
#pragma once

#include <string>
#include <vector>

#include "ridge/base/result.h"

namespace ridge::fit {

struct TimedLayer {
  double kernels = 0;  // number of kernels
  double alone_s = 0;  // sum of the kernels' times, each timed alone
  double whole_s = 0;  // time of the layer
  bool is_held_out = false;
};

// Reads data/timings/layers; every other line is held out. Errors: a missing or malformed file, or another device.
Result<std::vector<TimedLayer>> read_layers(const std::string& root, const std::string& device_name);

// Returns the median, over the layers that are not held out, of the seconds that a kernel takes after another one in
// addition to its own time. Prints the error of the held-out layers' times.
double fit_kernel_switch(const std::vector<TimedLayer>& layers);

}  // namespace ridge::fit
