// Errors for programs that cannot run on several devices, with hints.
#pragma once

#include "ridge/base/result.h"
#include "ridge/distributed/redistribution.h"
#include "ridge/program/program.h"

namespace ridge::ranks {

// Rejects split tensors whose elements share block scales, or split dimensions of sequences of several lengths.
Status validate_tensors(const Program& program);
// For grouped heads, where each element of G covers several of H: rejects shards of H and G on different devices.
Status validate_grouped_axes(const Program& program, const Contraction& product, const Bindings& sizes,
                             const Mesh& mesh);
// Rejects partial sums in a dtype that cannot hold them, and elements that share block scales.
Status validate_redistribution(const Statement& statement, const RedistributionStep& step, DType dtype);

}  // namespace ridge::ranks
