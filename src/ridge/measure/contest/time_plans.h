// Times many plans of each product on this device, as much as a budget of seconds allows. Half of a product's plans are
// the model's best; the others are drawn among those of the configs that had the fewest timings so far, so that every
// config of the menu is timed, and with it what the model holds for slow. Products come in an order that is drawn once
// and for all: however soon the time is up, small and large ones were timed alike.
#pragma once

#include <functional>
#include <vector>

#include "ridge/base/result.h"
#include "ridge/measure/contest/plan_timings.h"

namespace ridge {

struct TimePlansOptions {
  double seconds = 400;  // after which no product is begun
  int plans = 40;        // of each product
  std::size_t skip = 0;  // so many products of the order, which an earlier run has timed
  std::function<void(const TimedProduct&, std::size_t done, std::size_t of)> timed;
};

Result<TimedDevice> timed_device();  // an error where there is none
Status time_plans(const std::vector<ContestShape>& shapes, const TimePlansOptions& options);

}  // namespace ridge
