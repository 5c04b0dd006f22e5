// Splits a program into passes: sets of statements that share one pipe because tiles of a common dimension stream
// through all of them. A statement belongs if its result has that dimension and it needs only the current tile; or if
// it sums over the dimension and nothing in the pass reads the sum, which is complete only at the end.
//   s[S, T] = q * k; p[S, T] = softmax(s over T); o[S, E] = p * v      one pass along S
//   preceded by k[T, E] = c * wk                                       a pass along T, then one along S
//   sigma[C, E] = d * e, d[R, C] and e[R, E]                           one pass along R: sigma is its sum
#pragma once

#include <string>
#include <vector>

#include "ridge/program/program.h"

namespace ridge {

struct StreamingPass {
  std::string streamed_dim;     // dimension that streams; empty if everything is one tile
  std::vector<int> statements;  // indices into Program::statements, in order
};

// A statement streams along a dimension not at all, tile by tile, or as a sum over all tiles.
enum class StreamMode { none, tiles, sum };
StreamMode stream_mode(const Program& program, const Statement& statement, const std::string& dim);

// Returns the passes in execution order. Each pass takes the dimension that leaves the fewest statements to earlier
// passes; ties go to the dimension that most results have, then the longest in `sizes`, then the first of the result.
std::vector<StreamingPass> split_into_passes(const Program& program, const Bindings& sizes = {});

}  // namespace ridge
