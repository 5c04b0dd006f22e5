// The parameters of a Hopper that predictions need, from its machine file: fitted to measured plans ([plan]), or
// estimated as fractions of its peaks (data/models/devices.csv), which gives wider intervals and a remark.
#pragma once

#include <string>

#include "ridge/base/result.h"
#include "ridge/machine/machine.h"
#include "ridge/ops/model.h"

namespace ridge {

// Returns the parameters. Errors: Ridge has no kernels for the machine, or its file lacks cores, clock or L2 size.
Result<ops::DeviceNumbers> device_numbers(const Machine& machine);

// Returns a remark for the report if the parameters are estimated, else an empty string.
std::string uncertainty_remark(const Machine& machine, const ops::DeviceNumbers& device);

}  // namespace ridge
