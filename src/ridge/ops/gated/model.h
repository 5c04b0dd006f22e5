// Predicts traffic and time of a gated layer on Hopper and names its kernels: "sm90_gated_128x192x64_pingpong", where
// 192 counts the columns of both halves.
#pragma once

#include "ridge/ops/gated/cuda.h"
#include "ridge/ops/model.h"

namespace ridge::ops::cuda {

Forecast forecast(const GatedCall& call, const DeviceNumbers& device);  // Requires a supported call

}  // namespace ridge::ops::cuda
