// Launches products with operands loaded through registers. Internal to the CUDA product.
#pragma once

#include <cuda_runtime.h>

#include "ridge/ops/product/register_loads/register_loads.h"
#include "ridge/tile/tile.h"

namespace ridge::ops::cuda {

// Queues the product on the stream. `sums` has plan.workspace_bytes less the counters: the sums of all splits.
Status multiply_with_register_loads(const TileProblem& t, const tile::TargetOutput& output, const MatmulPlan& plan,
                                    float* sums, cudaStream_t stream);

}  // namespace ridge::ops::cuda
