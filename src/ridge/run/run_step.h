// Runs one step of a plan on this CPU.
#pragma once

#include <span>

#include "ridge/base/reason.h"
#include "ridge/plan/plan.h"

namespace ridge {

// Runs a step of a plan for Target::cpu. `data` has the addresses of step.buffers, null for a buffer of -1.
void run_step(const PlanStep& step, std::span<void* const> data, int threads);

// Returns why this CPU's kernels cannot run the step.
Reason cpu_unsupported_reason(const PlanStep& step);

}  // namespace ridge
