// Breakdown of a product's predicted time by cause of overhead. Causes are removed from the closed form one by one, so
// that the times of all causes add up.
#pragma once

#include <string_view>
#include <vector>

#include "ridge/ops/model.h"
#include "ridge/ops/product/problem.h"

namespace ridge::ops {

struct OverheadCause {
  std::string_view cause;  // "launch", "last wave"
  double seconds = 0;
};

// Returns the causes in the order launch, unaligned lines, fill and drain, split fix-up, clock under power, last wave,
// tile edges, without causes that take no time. For a plan without tiles, returns only the launch.
std::vector<OverheadCause> overhead_breakdown(const MatmulProblem& problem, const DeviceNumbers& device);

}  // namespace ridge::ops
