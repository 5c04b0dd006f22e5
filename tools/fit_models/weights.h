// Times of products with narrow weights (data/timings/weights), to which the constants weight_* are fitted.
#pragma once

#include <string>
#include <vector>

#include "ridge/base/result.h"
#include "ridge/ops/model.h"
#include "ridge/ops/product/call.h"

namespace ridge::fit {

struct TimedWeights {
  ops::MatmulCall call;
  int config = 0, splits = 1;  // Index of `weight_only_tiles`, and blocks that divide k
  double measured_s = 0;
};
// Errors: the file cannot be read, or it is of another device.
Result<std::vector<TimedWeights>> read_weights(const std::string& root, const std::string& device_name);

double predicted_seconds(const TimedWeights& timed, const ops::DeviceNumbers& device);

}  // namespace ridge::fit
