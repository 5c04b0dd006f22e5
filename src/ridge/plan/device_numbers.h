// What plans need to know of a Hopper, from its machine file: the numbers that were fitted to timings of plans there
// ([plan]), or, where nobody timed any, the shares of peaks in data/models/devices.csv. Then
// predictions say so and are less certain.
#pragma once

#include <string>

#include "ridge/base/result.h"
#include "ridge/machine/machine.h"
#include "ridge/ops/model.h"

namespace ridge {

// Errors: a machine on which no kernel of Ridge runs, one that lacks its cores, clock, memory or L2.
Result<ops::DeviceNumbers> device_numbers(const Machine& machine);

// What a plan's reader must know of them; empty: nothing.
std::string remark(const Machine& machine, const ops::DeviceNumbers& device);

}  // namespace ridge
