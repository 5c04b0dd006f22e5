// The text of a kernel that works on whole rows, for a CUDA device.
#pragma once

#include <span>

#include "ridge/device/device.h"
#include "ridge/device/generated.h"
#include "ridge/ops/rows/program.h"

namespace ridge::ops {

// The program must have no fault (find_fault). Pointers are device memory, of which only the alignment is looked at.
// What goes across rows leaves a piece a block or cluster, pieces_of(program) at most.
Generated generate(const RowProgram& program, std::span<void* const> tensors, const cuda::Multiprocessors& device);

}  // namespace ridge::ops
