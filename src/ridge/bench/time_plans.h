// Times many plans of each product on this device within a budget of seconds. Half of a product's plans are the model's
// best. The others are drawn from the configs with the fewest timings so far, so that every config is timed, including
// those that the model considers slow. The order of the
// products is random but fixed, so that small and large ones are timed whenever the budget ends.
#pragma once

#include <functional>
#include <vector>

#include "ridge/base/result.h"
#include "ridge/bench/plan_timings.h"

namespace ridge {

struct TimePlansOptions {
  double seconds = 400;        // no product starts after that time
  int plans_per_product = 40;  // at most; fewer if the product is slow
  std::size_t skip = 0;        // products that an earlier run has timed
  std::function<void(const TimedProduct&, std::size_t done, std::size_t total)> on_timed;
};

Result<TimedDevice> describe_timed_device();  // returns an error without a device
Status time_plans(const std::vector<BenchmarkShape>& shapes, const TimePlansOptions& options);

}  // namespace ridge
