// Launches generated kernels. A kernel's code is searched in this process, then in the disk cache, and compiled if both
// miss. Later launches cost the generation of the source and a map lookup, about 10 us.
#pragma once

#include "ridge/base/reason.h"
#include "ridge/base/result.h"
#include "ridge/device/generated_kernel.h"

struct CUstream_st;

namespace ridge::device {

// Returns why kernels cannot be generated (no compiler, or the driver rejects its code): "NVRTC is turned off by
// RIDGE_NVRTC=off; unset it". The result never changes within a process.
Reason generation_unavailable_reason();

// Errors: the compilation or the launch fails. May be captured in a graph.
Status launch_generated(const GeneratedKernel& kernel, CUstream_st* stream);

}  // namespace ridge::device
