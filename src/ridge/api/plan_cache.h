// Cache of planned programs, for the C and Python APIs, whose callers do not hold plans.
#pragma once

#include "ridge/compute.h"

namespace ridge::api {

// Returns a cached result of `prepare` for the same request and inputs, or calls `prepare`. The cache holds the 256
// most recently used ones, except programs in files, which may change. Thread-safe.
Result<Computation> prepare_cached(const ComputeRequest& request, const std::vector<ArrayType>& inputs);

}  // namespace ridge::api
