// Launches products with narrow weights. Internal to the CUDA product.
#pragma once

#include <cuda_runtime.h>

#include "ridge/ops/product/weight_only/weight_only.h"

namespace ridge::ops::cuda {

Status multiply_weight_only(const TileProblem& t, const tile::TargetOutput& output, const MatmulPlan& plan,
                            cudaStream_t stream);

}  // namespace ridge::ops::cuda
