// Block-scaled elements in memory. Hosts store contiguous blocks, each a scale followed by its elements. Of two 4-bit
// elements the first is in the lower half of the byte. An mxfp4 block is 17 bytes: a power of two 2^(s - 127), then 32
// e2m1.
//   mxfp8, mxfp4        2^(floor(log2(largest magnitude)) - 8 or 2), the largest exponent of an e4m3 or e2m1
//   nvfp4               e4m3 of largest magnitude/6;   e4m3_128   f32 of largest magnitude/448
//   int4_32 to int4_128 f16 of largest magnitude/7, up to 65504
//   u4_32 to u4_128     f16 of (largest - smallest)/15, of which 0 is one of the values; then a byte with the zero
//                       point, 0 to 15 (readers take up to 127), and a byte that is 0
// Elements are value/scale, rounded to nearest, ties to even, and clamped to the largest finite code; those of u4 are
// the sum with the zero point, and their value is (code - zero point) * scale. The scale of a block that holds a NaN or
// an infinity is NaN. Source: OCP Microscaling Formats (MX) Specification 1.0, section 6.3.
#pragma once

#include <cstdint>

#include "ridge/base/dtype.h"

namespace ridge {

// Block-scaled tensors as devices store them: all elements, and then all scales. Lines of a matrix are then aligned,
// and the copy engine (TMA) loads elements alone. Each 32 elements of 4 bits are in the order in which tensor cores
// take them (`find_nibble_on_device`). Kernels name the dtype as a constant, since they cannot read the table of
// dtypes.
template <DType dtype> struct BlockPlanes {
  static constexpr int block = dtype_info(dtype).block, scale_bytes = dtype_info(dtype).scale_bits / 8,
                       element_bits = dtype_info(dtype).bits;
  // Returns where the scale of element i of a tensor of `elements` is, in bytes.
  static constexpr std::int64_t scale_offset(std::int64_t i, std::int64_t elements) {
    return elements / 8 * element_bits + i / block * scale_bytes;
  }
};
inline constexpr int scale_quad = 4;  // Scales of a line of e4m3_128 that kernels load together
// Returns the bytes of the plane of `elements`, a multiple of the block.
constexpr std::int64_t element_plane_bytes(DType dtype, std::int64_t elements) {
  return elements / 8 * dtype_info(dtype).bits;
}

inline constexpr int nibble_unit = 32;  // Elements of 4 bits whose order devices change together: 16 bytes
// Returns the place of element i of a tensor of `elements` of 4 bits on a device, in units of 4 bits. Each of a unit's
// four words has the eight elements of a lane of the tensor cores (mma.sync, wgmma): of two steps of 16 elements,
// the pairs from 2 * lane and from 8 + 2 * lane on. The elements of a pair are 16 bits from each other. A last unit
// that is not full keeps its order.
constexpr std::int64_t find_nibble_on_device(std::int64_t i, std::int64_t elements) {
  const std::int64_t in_unit = i % nibble_unit, unit = i - in_unit;
  if (unit + nibble_unit > elements) return i;
  const std::int64_t lane = in_unit % 8 / 2, pair = in_unit / 8;
  return unit + lane * 8 + pair + i % 2 * 4;
}

// Copies `count` blocks from the order of hosts to two planes. The elements of these blocks have whole units of
// `nibble_unit`, unless they are the last of the tensor. `join_blocks` copies two such planes to the order of hosts.
void split_blocks(DType dtype, const void* blocks, std::int64_t count, void* elements, void* scales);
void join_blocks(DType dtype, const void* elements, const void* scales, std::int64_t count, void* blocks);

double load_scaled_element(DType dtype, const void* data, std::int64_t element);
// Stores `dtype_info(dtype).block` values as block number `block`.
void store_scaled_block(DType dtype, void* data, std::int64_t block, const double* values);

}  // namespace ridge
