// TMA descriptors (tensor maps) of matrices. Internal to the CUDA products.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "ridge/base/dtype.h"

namespace ridge::ops::cuda {

struct Box {
  int x, y;
};
// Matrices of `lines` lines of `length` 16-bit elements. Strides are in elements.
struct Lines {
  void* data;
  std::int64_t length, lines, matrices, line, matrix;
};

// inner * outer matrices of `lines` lines of `length` 16-bit elements. Strides are in elements.
struct Stacked {
  void* data;
  std::int64_t length, lines, inner, outer, line, inner_stride, outer_stride;
};

// Returns false if the driver fails. If `swizzled`, the box's rows of 128 or 64 bytes are swizzled in shared memory.
bool encode(CUtensorMap& map, const Lines& x, DType dtype, Box box, bool swizzled);
bool encode(CUtensorMap& map, const Stacked& x, DType dtype, Box box);  // Swizzled.

// Five axes with any strides; the first is contiguous, and boxes have size 1 along the last two.
struct FiveAxes {
  void* data;
  std::int64_t sizes[5], strides[4];
  int box[3];
};
bool encode(CUtensorMap& map, const FiveAxes& x, DType dtype);  // Swizzled.

}  // namespace ridge::ops::cuda
