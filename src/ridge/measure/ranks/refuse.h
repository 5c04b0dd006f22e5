// What does not run on several devices, said with a cure.
#pragma once

#include <optional>

#include "ridge/distributed/moves.h"
#include "ridge/program/program.h"

namespace ridge::ranks {

// A tensor in blocks that share a scale, or one along sequences of several lengths, that is split.
std::optional<Error> refuse_tensors(const Program& program);
// Parts of H and of G that do not lie together, where each element of G stands for several along H.
std::optional<Error> refuse_groups(const Program& program, const Contraction& product, const Bindings& sizes,
                                   const Mesh& mesh);
// Addends of a dtype in which they would be cut off.
std::optional<Error> refuse_move(const Statement& statement, const Move& move, DType dtype);

}  // namespace ridge::ranks
