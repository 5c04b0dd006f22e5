// Sizes that hang on other sizes. With dims F = 4*D, whoever gives D another value with -d gives F one too, so that a
// threshold of D counts with 4*D wherever F stands:
//   bf16[B, D] * bf16[D, F] -> bf16[B, F]:  4*B*D over 5*B + 4*D, and D >= 5*r*B/(4*B - 4*r)
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ridge/program/program.h"

namespace ridge {

// What follows a dimension.
struct Following {
  std::vector<std::pair<std::string, Polynomial>> sizes;  // F, 4*D; none of them stands in another one's polynomial
  bool solvable = true;  // every size is a sum of products with positive factors, so that it grows with the dimension
};
using Followers = std::map<std::string, Following>;  // by the dimension that is followed

// The defaults that hang on each dimension, but for those in `given`.
Followers followers(const Program& program, const Bindings& given);

// The count with what follows written out. None: it is not solvable, or would be longer than anybody reads.
std::optional<Polynomial> written_out(const Polynomial& count, const Following& following);

}  // namespace ridge
