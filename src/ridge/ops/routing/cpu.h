// Routes rows to their groups and back on this CPU.
#pragma once

#include <span>

#include "ridge/ops/routing/problem.h"

namespace ridge::ops {

// Moves the rows. Requires a problem without `unsupported_reason`; problem.h lists the tensors of `data`.
void route_rows(const RoutingProblem& rows, std::span<void* const> data, int threads);

}  // namespace ridge::ops
