// Whether a device's kernel that ends a product in more than rounding is worth its while: what two kernels do in less
// time stays two. Internal to plan/.
#pragma once

#include <optional>
#include <string>

#include "ridge/ops/fused/problem.h"

namespace ridge {

// Why it takes longer as one kernel, as a sentence; none: it does not. The device must not refuse it.
std::optional<std::string> slow_ending(const ops::FusedMatmul& fused);

}  // namespace ridge
