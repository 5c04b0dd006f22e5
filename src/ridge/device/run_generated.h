// Launches generated kernels. A kernel's code is searched in this process, then in the disk cache, and compiled if both
// miss. Later launches cost the generation of the source and a map lookup, about 10 us.
#pragma once

#include <optional>
#include <string>

#include "ridge/device/generated_kernel.h"

struct CUstream_st;

namespace ridge::device {

// Returns why kernels cannot be generated (no compiler, or the driver rejects its code), or nullopt if they can. The
// result never changes within a process.
std::optional<std::string> generation_unavailable_reason();

// Returns a note for reports such as "interpreted, which is slower: NVRTC is turned off by RIDGE_NVRTC=off; unset it",
// or nullopt if kernels are generated. Else chains are interpreted and row functions use a block per row.
std::optional<std::string> interpreter_note();

// Returns an error message if compilation or launch fails. May be captured in a graph.
std::optional<std::string> launch_generated(const GeneratedKernel& kernel, CUstream_st* stream);

}  // namespace ridge::device
