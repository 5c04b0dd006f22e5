// One step of a plan on this CPU.
#pragma once

#include <span>

#include "ridge/plan/plan.h"

namespace ridge {

// `data`: where each of step.buffers lies; null for one of -1. The step is of a plan for Target::cpu.
void perform(const Step& step, std::span<void* const> data, int threads);

}  // namespace ridge
