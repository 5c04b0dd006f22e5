// Programs that compute the same, or nearly, in another way: what advice is about. Each is made as text and read again.
#pragma once

#include <string>
#include <vector>

#include "ridge/plan/predict.h"

namespace ridge {

struct Variant {
  std::string kind;  // "order", "layout", "dtype", "weights", "padding", "batch", "chips"
  std::string what;
  Program program;
  Bindings dims;
  double work = 1;
};

// Its sizes in its dims line, so that its text says all.
Program with_sizes(Program program, const Bindings& dims);

// Products of three in another order; what the planner copies, stored in the order in which it is read; f32 in
// bf16; weights in int8; sizes in whole tiles; more rows at once; one chip's part of eight between which nothing moves.
std::vector<Variant> variants(const Program& program, const Explanation& explanation, const PlannedProgram* planned);

}  // namespace ridge
