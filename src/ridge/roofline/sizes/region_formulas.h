// Counts of index tuples as polynomials in tokens, chunks and tokens of a chunk. Regions of a recurrence in chunks,
// such as the pairs of a token and an earlier one of its chunk, have such counts once a convolution's window is full:
//   index(SK) < index(SL), SL = SK   SL*(SL - 1)/2
//   index(SW) <= index(ST), SW = 4   4*ST - 6
#pragma once

#include "ridge/roofline/sizes/flat_program.h"

namespace ridge {

// Replaces the regions among the values by polynomials, at least 0. Returns false if one has no polynomial of degree 2
// in each of S = ST, SC = SP and SL = SK that has its count at all tested sizes.
bool replace_regions(FlatSizes& sizes);

}  // namespace ridge
