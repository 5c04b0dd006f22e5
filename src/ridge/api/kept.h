// Plans of programs that ran before, for doors whose callers hold none. Internal to the doors.
#pragma once

#include "ridge/compute.h"

namespace ridge::api {

// prepare(), or what it gave for the same request and inputs: the last 256 of them are kept, but for programs in files,
// which may change. From any thread.
Result<Computation> kept(const ComputeRequest& request, const std::vector<ArrayType>& inputs);

}  // namespace ridge::api
