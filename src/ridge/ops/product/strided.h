// Matrices of a product in device memory, for kernels without tensor maps. Internal to the CUDA product.
#pragma once

#include "ridge/ops/product/operands.h"
#include "ridge/tile/tile.h"

namespace ridge::ops::cuda {

struct StridedOperand {  // Element (i, k) of product b is data[b * batch_stride + i * step + k * k_step]
  const void* data;
  tile::Index step, k_step, batch_stride;
};
inline StridedOperand to_strided(const TileOperand& x) {
  const bool along_k = x.major == tile::Major::k;
  return {x.data, along_k ? x.line_stride : 1, along_k ? 1 : x.line_stride, x.batch_stride};
}

struct StridedOutput {
  void* data;
  tile::Index rows, cols, row_stride, batch_stride;
  tile::TargetOutput target;
};

}  // namespace ridge::ops::cuda
