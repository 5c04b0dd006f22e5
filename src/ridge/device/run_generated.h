// Generated kernels on the device: each text is looked for among what this process has loaded, then on disk, else
// compiled. A launch after the first costs the making of the text and a look into a map, some ten microseconds.
#pragma once

#include <optional>
#include <string>

#include "ridge/device/generated.h"

struct CUstream_st;

namespace ridge::ops::cuda {

// Why kernels are not generated here; nothing: they are. Says so once and for all: no compiler, or code that the driver
// does not take.
std::optional<std::string> cannot_generate();

// "interpreted, which is slower: NVRTC is turned off by RIDGE_NVRTC=off; unset it", with the cure last, of chains (and
// row functions, which then run a block a row). Nothing: these kernels are generated.
std::optional<std::string> interpreted();

// A sentence if the compiler or the driver refuses. May be captured in a graph.
std::optional<std::string> run(const Generated& kernel, CUstream_st* stream);

}  // namespace ridge::ops::cuda
