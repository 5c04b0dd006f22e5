// One step of a plan on this CPU.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "ridge/plan/plan.h"

namespace ridge {

// `data`: where each of step.buffers lies; null for one of -1. The step is of a plan for Target::cpu.
void perform(const Step& step, std::span<void* const> data, int threads);

// Why the kernels of this CPU do not take it, in words; nothing: they do.
std::optional<std::string> refuse(const Step& step);

}  // namespace ridge
