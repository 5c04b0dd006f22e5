// Kernels beside the tiles: one that copies an operand to lines of 128-byte multiples, one for a few rows of D, and one
// that multiplies anything, slowly. Internal to the CUDA product.
#pragma once

#include <cuda_runtime.h>

#include "ridge/ops/product/operands.h"
#include "ridge/tile/tile.h"

namespace ridge::ops::cuda {

// As `from`, or as `turned(from)`, with lines of copied_line elements.
cudaError_t copy_lines(const TileOperand& from, bool turn, void* to, std::int64_t batch, cudaStream_t stream);

// Up to most_gemv_rows rows of D from operands that are contiguous along k and start anywhere, with nothing copied.
cudaError_t multiply_gemv(const TileProblem& t, tile::Stored in, const tile::OutputOnTarget& output,
                          cudaStream_t stream);

// D by its rows; finishing as `output` says (its maps are not used).
cudaError_t multiply_plainly(const TileProblem& t, tile::Stored in, const tile::OutputOnTarget& output,
                             cudaStream_t stream);

}  // namespace ridge::ops::cuda
