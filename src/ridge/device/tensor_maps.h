// What the copy engine knows a matrix by. Internal to the CUDA products.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "ridge/base/dtype.h"

namespace ridge::ops::cuda {

struct Box {
  int x, y;
};
// `lines` lines of `length` elements in each of `matrices`; strides in elements of 16 bits.
struct Lines {
  void* data;
  std::int64_t length, lines, matrices, line, matrix;
};

// `lines` lines in each of inner * outer matrices; strides likewise.
struct Stacked {
  void* data;
  std::int64_t length, lines, inner, outer, line, inner_stride, outer_stride;
};

// False: the driver refuses. The box's rows of 128, 64 or 32 bytes lie swizzled, or as they are.
bool encode(CUtensorMap& map, const Lines& x, DType dtype, Box box, bool swizzled);
bool encode(CUtensorMap& map, const Stacked& x, DType dtype, Box box);  // swizzled

// Any five axes, of which the first is contiguous and boxes have no more than one place along the last two.
struct FiveAxes {
  void* data;
  std::int64_t sizes[5], strides[4];
  int box[3];
};
bool encode(CUtensorMap& map, const FiveAxes& x, DType dtype);  // swizzled

}  // namespace ridge::ops::cuda
