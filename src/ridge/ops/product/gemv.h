// Kernels without tensor cores: copies of operands to lines aligned to 128 bytes, products with a few rows of D, and a
// slow product of any operands. Internal to the CUDA product.
#pragma once

#include <cuda_runtime.h>

#include "ridge/ops/product/operands.h"
#include "ridge/tile/tile.h"

namespace ridge::ops::cuda {

// Copies `from`, transposed if `transpose`, to lines that are `copy_line_stride` elements apart.
Status copy_to_aligned_lines(const TileOperand& from, bool transpose, void* to, std::int64_t batch,
                             cudaStream_t stream);

// Computes up to `max_gemv_rows` rows of D from operands of any alignment without copies. A and B must be contiguous
// along k, or B along n.
Status multiply_gemv(const TileProblem& t, const tile::TargetOutput& output, cudaStream_t stream);

// Computes any product and the epilogue of `output`. The tensor maps of `output` are not used.
Status multiply_plain(const TileProblem& t, const tile::TargetOutput& output, cudaStream_t stream);

}  // namespace ridge::ops::cuda
