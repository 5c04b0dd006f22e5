// Generated kernels on the device: each text is looked for among what this process has loaded, then on disk, else
// compiled. A launch after the first costs the making of the text and a look into a map, some ten microseconds.
#pragma once

#include <optional>
#include <string>

#include "ridge/kernels/generated.h"

struct CUstream_st;

namespace ridge::kernels::cuda {

// Why kernels are not generated here; nothing: they are. Says so once and for all: no compiler, or code that the driver
// does not take.
std::optional<std::string> cannot_generate();

// A sentence if the compiler or the driver refuses. May be captured in a graph.
std::optional<std::string> run(const Generated& kernel, CUstream_st* stream);

}  // namespace ridge::kernels::cuda
