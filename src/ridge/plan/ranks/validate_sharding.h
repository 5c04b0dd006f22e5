// Errors for programs that cannot run on several devices, with hints; nullopt if there is none.
#pragma once

#include <optional>

#include "ridge/distributed/redistribution.h"
#include "ridge/program/program.h"

namespace ridge::ranks {

// Rejects split tensors whose elements share block scales, or split dimensions of sequences of several lengths.
std::optional<Error> validate_tensors(const Program& program);
// For grouped heads, where each element of G covers several of H: rejects shards of H and G on different devices.
std::optional<Error> validate_grouped_axes(const Program& program, const Contraction& product, const Bindings& sizes,
                                           const Mesh& mesh);
// Rejects partial sums in a dtype that cannot hold them, and elements that share block scales.
std::optional<Error> validate_redistribution(const Statement& statement, const RedistributionStep& step, DType dtype);

}  // namespace ridge::ranks
