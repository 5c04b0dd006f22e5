// Kernels without tiles: copies of operands to lines aligned to 128 bytes, products with a few rows of D, and a slow
// product of any operands. Internal to the CUDA product.
#pragma once

#include <cuda_runtime.h>

#include "ridge/ops/product/operands.h"
#include "ridge/tile/tile.h"

namespace ridge::ops::cuda {

// Copies `from`, transposed if `transpose`, to lines of `copied_line_elements`.
cudaError_t copy_lines(const TileOperand& from, bool transpose, void* to, std::int64_t batch, cudaStream_t stream);

// Computes up to `max_gemv_rows` rows of D from unaligned operands that are contiguous along k, without copies.
cudaError_t multiply_gemv(const TileProblem& t, tile::StorageFormat in, const tile::TargetOutput& output,
                          cudaStream_t stream);

// Computes any product with the epilogue of `output`, whose tensor maps are not used.
cudaError_t multiply_plain(const TileProblem& t, tile::StorageFormat in, const tile::TargetOutput& output,
                           cudaStream_t stream);

}  // namespace ridge::ops::cuda
