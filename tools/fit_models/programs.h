// Plans of programs whose timings are stored next to them.
#pragma once

#include <string>
#include <string_view>

#include "ridge/plan/plan.h"

namespace ridge::fit {

// Returns the plan of a file's program on a device. Sizes are separated by spaces: "M=1024 N=1024 K=64". `dtype`
// replaces the program's f32 unless it is empty.
Result<Plan> read_device_plan(const std::string& path, std::string_view dtype, const std::string& sizes);

}  // namespace ridge::fit
