// Report of the matmul benchmark on a CUDA device, as text and as JSON ("ridge.device_contest/2").
#pragma once

#include <string>

#include "ridge/measure/contest/device_contest.h"

namespace ridge {

std::string device_contest_text(const DeviceContest& contest);
std::string device_contest_json(const DeviceContest& contest);

}  // namespace ridge
