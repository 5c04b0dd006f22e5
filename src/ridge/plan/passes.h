// Cuts a program into passes: runs of statements that can share one pipe because one dimension runs through all of
// them, so that tiles of it stream. A statement belongs if its result has that dimension, and needs no more of it than
// the tile at hand; or if it sums the dimension and nothing in the pass reads the sum, which is whole only at the end.
//   s[S, T] = q * k; p[S, T] = softmax(s over T); o[S, E] = p * v      one pass along S
//   with k[T, E] = c * wk in front                                     a pass along T, then one along S
//   sigma[C, E] = d * e, d[R, C] and e[R, E]                           one pass along R: sigma is its sum
#pragma once

#include <string>
#include <vector>

#include "ridge/program/program.h"

namespace ridge {

struct Pass {
  std::string rows;             // the dimension that streams; empty: none does, it is one tile
  std::vector<int> statements;  // of the program, in order
};

// Whether a statement goes through a pipe along `dim`, and how.
enum class Streams { no, rows, sum };
Streams streams(const Program& program, const Statement& statement, const std::string& dim);

// In the order in which they run. Of a pass's possible dimensions the one that leaves fewest statements to passes
// before it; among equals that which most results have, then the longest of `sizes`, then the result's own first.
std::vector<Pass> passes_of(const Program& program, const Bindings& sizes = {});

}  // namespace ridge
