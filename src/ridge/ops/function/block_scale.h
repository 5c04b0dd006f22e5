// Conversions of contiguous blocks with scales (base/block_scale.h) from or to f32, bf16 or f16. Internal to the
// kernels.
#pragma once

#include <cstdint>

#include "ridge/base/dtype.h"

namespace ridge::ops {

struct BlockQuantization {
  DType scaled_dtype = DType::mxfp8, dtype = DType::f32;
  void* scaled = nullptr;
  const void* elements = nullptr;
  std::int64_t blocks = 0;
};
// Lines of contiguous blocks, whose elements become contiguous, too.
struct BlockDequantization {
  DType scaled_dtype = DType::mxfp8, dtype = DType::f32;
  const void* scaled = nullptr;
  void* elements = nullptr;
  std::int64_t blocks = 0;  // Blocks of a line
  std::int64_t lines = 1;
  std::int64_t scaled_stride_bytes = 0, element_stride = 0;  // Distances between lines
};

// Variants of block_scale_body.cc, which is compiled once per instruction set.
namespace plain {
void quantize_blocks(const BlockQuantization& run);
void dequantize_blocks(const BlockDequantization& run);
}  // namespace plain
namespace avx2 {
void quantize_blocks(const BlockQuantization& run);
void dequantize_blocks(const BlockDequantization& run);
}  // namespace avx2
namespace avx512 {
void quantize_blocks(const BlockQuantization& run);
void dequantize_blocks(const BlockDequantization& run);
}  // namespace avx512

}  // namespace ridge::ops
