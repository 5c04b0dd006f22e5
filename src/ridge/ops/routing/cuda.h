// Rows to their groups and back on a CUDA device, queued on the caller's stream. No CUDA header is needed here.
#pragma once

#include <span>

#include "ridge/ops/routing/problem.h"

struct CUstream_st;

namespace ridge::ops::cuda {

inline std::optional<std::string> refuse(const RoutedRows& rows) { return ops::refuse(rows); }

// Data in device memory, as problem.h says. The same places every time. A sentence if the driver refuses a launch.
std::optional<std::string> routed_rows(const RoutedRows& rows, std::span<void* const> data, CUstream_st* stream);

}  // namespace ridge::ops::cuda
