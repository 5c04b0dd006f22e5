// TMA descriptors (tensor maps) of matrices. Internal to the CUDA products.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "ridge/base/error.h"
#include "ridge/base/operand_type.h"

namespace ridge::device {

struct TensorMapBox {
  int x, y;
};
// `matrices` matrices of `lines` contiguous lines of `length` elements. Strides are in elements.
struct MatrixBatch {
  void* data;
  std::int64_t length, lines, matrices, line_stride, matrix_stride;
};

// outer x inner matrices, with a stride for each of the two batch axes.
struct MatrixBatch2D {
  void* data;
  std::int64_t length, lines, inner, outer, line_stride, inner_stride, outer_stride;
};

// Returns false if the dtype is not one of OperandDTypes or the driver fails. If `swizzled`, the box's rows of 128 or
// 64 bytes are swizzled in shared memory.
bool encode_tensor_map(CUtensorMap& map, const MatrixBatch& x, DType dtype, TensorMapBox box, bool swizzled);
bool encode_tensor_map(CUtensorMap& map, const MatrixBatch2D& x, DType dtype, TensorMapBox box);  // Swizzled.

// Five axes with any strides; the first is contiguous, and boxes have size 1 along the last two.
struct FiveAxisTensor {
  void* data;
  std::int64_t sizes[5], strides[4];
  int box[3];
};
bool encode_tensor_map(CUtensorMap& map, const FiveAxisTensor& x, DType dtype);  // Swizzled.

// The input of a convolution with contiguous channels. Axes are the innermost first; sizes, strides in elements.
struct ImageTensor {
  void* data;
  std::int64_t channels, images, image_stride;
  int axes;  // 2 or 3 window axes
  std::int64_t sizes[3], strides[3];
  // The first output reads from `first` pixels after the first pixel on, the last one from at most `last` pixels after
  // the last pixel on; outputs are `step` pixels apart.
  int first[3], last[3], step[3];
};
// The map loads boxes of 128 bytes of the channels of `pixels` pixels, swizzled.
bool encode_tensor_map(CUtensorMap& map, const ImageTensor& x, DType dtype, int pixels);

inline Error tensor_map_error() {
  return absent_error("the CUDA driver rejected a tensor map of an operand", "`nvidia-smi` shows the device's state");
}

}  // namespace ridge::device
