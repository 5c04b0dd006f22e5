// Launches products of f32 operands on tensor cores. Internal to the CUDA product.
#pragma once

#include <cuda_runtime.h>

#include "ridge/ops/product/f32/three_parts.h"
#include "ridge/tile/tile.h"

namespace ridge::ops::cuda {

// Queues the product on the stream. `sums` has plan.workspace_bytes less the counters: the sums of all splits.
Status multiply_three_parts(const TileProblem& t, const tile::TargetOutput& output, const MatmulPlan& plan, float* sums,
                            cudaStream_t stream);

}  // namespace ridge::ops::cuda
