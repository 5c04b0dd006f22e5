// What of a product's predicted time would go away with one cause: found by taking the causes out of the closed form
// one after the other, so that they add up.
#pragma once

#include <string_view>
#include <vector>

#include "ridge/ops/model.h"
#include "ridge/ops/product/problem.h"

namespace ridge::ops {

struct Loss {
  std::string_view cause;  // "launch", "last wave"
  double seconds = 0;
};

// In the order: launch, unaligned lines, fill and drain, split fix-up, clock under power, last wave, tile edges;
// without those that take nothing. Of a plan without tiles: the launch.
std::vector<Loss> losses(const MatmulProblem& problem, const DeviceNumbers& device);

}  // namespace ridge::ops
