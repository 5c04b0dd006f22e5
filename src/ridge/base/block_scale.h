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

// Four blocks of e4m3_128 as devices store them: four scales, then 512 elements, so that every part begins at a
// multiple of 16 bytes, as the copy engine (TMA) needs. Tensors whose number of elements is a multiple of 512 are
// stored in this way on devices.
struct BlockQuad {
  static constexpr int block = dtype_info(DType::e4m3_128).block, elements = 4 * block,
                       scale_bytes = 4 * static_cast<int>(sizeof(float)), bytes = scale_bytes + elements;
  // Return where element i of a tensor is, and where its scale is, in bytes.
  static constexpr std::int64_t element_offset(std::int64_t i) {
    return i / elements * bytes + scale_bytes + i % elements;
  }
  static constexpr std::int64_t scale_offset(std::int64_t i) {
    return i / elements * bytes + i % elements / block * static_cast<int>(sizeof(float));
  }
};
constexpr bool has_quads_on_devices(DType dtype, std::int64_t elements) {
  return dtype == DType::e4m3_128 && elements % BlockQuad::elements == 0;
}
// Change the order of `bytes` of blocks, which are whole quads, from that of hosts to that of devices, and back.
void reorder_for_device(void* data, std::int64_t bytes);
void reorder_for_host(void* data, std::int64_t bytes);

double load_scaled_element(DType dtype, const void* data, std::int64_t element);
// Stores `dtype_info(dtype).block` values as block number `block`.
void store_scaled_block(DType dtype, void* data, std::int64_t block, const double* values);

}  // namespace ridge
