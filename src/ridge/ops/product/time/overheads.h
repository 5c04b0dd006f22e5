// Breakdown of a product's predicted time by cause of overhead. Causes are removed from the closed form one after the
// other, so that their times add up.
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
// tile edges, without those that take no time. Returns only the launch for a plan without tiles.
std::vector<OverheadCause> overhead_breakdown(const MatmulProblem& problem, const DeviceNumbers& device);

}  // namespace ridge::ops
