// What one chunk of hidden columns asks of the kernels. Internal to the CUDA product.
#pragma once

#include "ridge/ops/gated/backward.h"

namespace ridge::ops::cuda {

struct BackwardSteps {
  GatedCall again;     // where h was not kept
  GatedGradient gate;  // dh and the biases' gradient
  InputGradient dx;
  std::vector<MatmulCall> dx_products;  // the same by two products
  std::vector<MatmulCall> dw_products;  // both weights' at once where they lie so
};

// Hidden columns first … first + columns - 1; `place`: of h_c where h was not kept.
BackwardSteps backward_steps(const GatedBackward& call, std::int64_t first, std::int64_t columns, void* place);

}  // namespace ridge::ops::cuda
