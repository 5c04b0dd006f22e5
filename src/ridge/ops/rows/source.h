// The text of a kernel that works on whole rows, for a CUDA device.
#pragma once

#include <span>

#include "ridge/device/generated.h"
#include "ridge/ops/rows/program.h"

namespace ridge::ops {

// The program must have no fault (find_fault). Pointers are device memory, of which only the alignment is looked at.
Generated generate(const RowProgram& program, std::span<void* const> tensors);

}  // namespace ridge::ops
