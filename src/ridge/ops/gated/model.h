// What a gated layer moves and takes on a Hopper device, and the names of its kernels:
// "sm90_gated_128x192x64_pingpong", both halves of a pair wide.
#pragma once

#include "ridge/ops/gated/cuda.h"
#include "ridge/ops/model.h"

namespace ridge::ops::cuda {

Forecast forecast(const GatedCall& call,
                  const DeviceNumbers& device);  // must not be refused

}  // namespace ridge::ops::cuda
