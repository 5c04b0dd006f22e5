// The reference executor of the words that stand alone (program/routine.h): each chosen element straight from the
// word's meaning, by the names and places of dimensions, in fp64. It knows nothing of how ops/loops walks them.
//   conv     sum over c and the window of x[n, c, o*stride + k*dilation - padding] * w[k, c, …], 0 outside of x
//   gather   table at the index that ids holds there
//   scatter  sum of the x whose index is the element's place along V
//   cumsum   sum of x up to and with the element's place along T
// Bounds: conv and cumsum are summed in fp64 and rounded once; a scatter is summed in f32, c additions of c*2^-24 each.
#pragma once

#include <cstdint>
#include <vector>

#include "ridge/measure/reference.h"
#include "ridge/program/routine.h"

namespace ridge {

// Of the elements `indices` (flat, row-major) of the result, without what storing it rounds.
std::vector<Expected> evaluate_routine(const Oracle& oracle, const Expression& routine,
                                       const std::vector<std::int64_t>& indices);

// Additions that an element takes.
double routine_cost(const Oracle& oracle, const Expression& routine);

}  // namespace ridge
