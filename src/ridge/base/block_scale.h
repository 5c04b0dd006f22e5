// Block-scaled elements in memory, one block behind the other: its scale, then its elements, of four bits the first in
// the lower half of a byte. An mxfp4 block is 17 bytes: a power of two 2^(s - 127), then 32 e2m1.
//   mxfp8, mxfp4   2^(floor(log2(largest magnitude)) - 8 or 2), the largest exponent of an e4m3 or e2m1
//   nvfp4          e4m3 of largest magnitude/6;   e4m3_128   f32 of largest magnitude/448
// Elements are the quotients, to nearest, ties to even, the largest where they are beyond it. A block that holds a NaN
// or an infinity has a NaN for its scale. Source: OCP Microscaling Formats (MX) Specification 1.0, section 6.3.
#pragma once

#include <cstdint>

#include "ridge/base/dtype.h"

namespace ridge {

double load_scaled(DType dtype, const void* data, std::int64_t element);
// The block's values in order, info(dtype).block of them.
void store_block(DType dtype, void* data, std::int64_t block, const double* values);

}  // namespace ridge
