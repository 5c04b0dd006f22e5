// Block-scaled elements in memory: contiguous blocks, each a scale followed by its elements. Of two 4-bit elements the
// first is in the lower half of the byte. An mxfp4 block is 17 bytes: a power of two 2^(s - 127), then 32 e2m1.
//   mxfp8, mxfp4   2^(floor(log2(largest magnitude)) - 8 or 2), the largest exponent of an e4m3 or e2m1
//   nvfp4          e4m3 of largest magnitude/6;   e4m3_128   f32 of largest magnitude/448
// Elements are value/scale, rounded to nearest, ties to even, and clamped to the largest finite code. The scale of a
// block that holds a NaN or an infinity is NaN. Source: OCP Microscaling Formats (MX) Specification 1.0, section 6.3.
#pragma once

#include <cstdint>

#include "ridge/base/dtype.h"

namespace ridge {

// e4m3_128 as devices store it: all elements of a tensor, one byte each, and then their f32 scales. The lines of a
// matrix then begin where those of e4m3 do, and the copy engine (TMA) loads elements alone.
struct BlockPlanes {
  static constexpr int block = dtype_info(DType::e4m3_128).block, scale_bytes = sizeof(float);
  static constexpr int quad = 4, quad_bytes = quad * scale_bytes;  // Scales that a thread loads together
  // Returns where the scale of element i of a tensor of `elements` is, in bytes; the element itself is byte i.
  static constexpr std::int64_t scale_offset(std::int64_t i, std::int64_t elements) {
    return elements + i / block * scale_bytes;
  }
};
constexpr bool has_planes_on_devices(DType dtype) { return dtype == DType::e4m3_128; }
// Copy `count` blocks of e4m3_128 between the order of hosts and two planes.
void split_blocks(const void* blocks, std::int64_t count, void* elements, void* scales);
void join_blocks(const void* elements, const void* scales, std::int64_t count, void* blocks);

double load_scaled_element(DType dtype, const void* data, std::int64_t element);
// Stores `dtype_info(dtype).block` values as block number `block`.
void store_scaled_block(DType dtype, void* data, std::int64_t block, const double* values);

}  // namespace ridge
