// Reference implementation of routines (program/routine.h): evaluates selected elements directly from the definition,
// by dimension names and indices, in fp64. It is independent of how ops/loops computes them.
//   conv     sum over c and the window of x[n, c, o*stride + k*dilation - padding] * w[k, c, …], 0 outside of x
//   conv_transpose   sum over c, positions i and kernel elements r with o = i*stride + r*dilation - padding of
//            x[n, c, i] * w[c, k, r]
//   gather   table at the index that ids holds there
//   scatter  sum of the x whose index equals the element's index along V
//   cumsum   sum of x up to and including the element's index along T
// Bounds: convolutions are summed in f32 like a product; cumsum is summed in fp64 and rounded once; a scatter is summed
// in f32, c additions of c*2^-24.
#pragma once

#include <cstdint>
#include <vector>

#include "ridge/measure/reference.h"
#include "ridge/program/routine.h"

namespace ridge {

// Evaluates the elements `indices` (flat, row-major) of the result, without the rounding of the stored dtype.
std::vector<Expected> evaluate_routine(const Reference& reference, const Expression& routine,
                                       const std::vector<std::int64_t>& indices);

// Returns the additions per element.
double estimate_routine_cost(const Reference& reference, const Expression& routine);

}  // namespace ridge
