// The kernel calls for one chunk of hidden columns. Internal to ops/gated.
#pragma once

#include "ridge/ops/gated/backward.h"

namespace ridge::ops::cuda {

struct BackwardSteps {
  GatedCall recompute;    // Recomputes h; used if h was not kept
  GateGradientCall gate;  // Computes dh and the biases' gradients
  InputGradient dx;
  std::vector<MatmulCall> dx_products;  // Alternative to `dx`: two products
  std::vector<MatmulCall> dw_products;  // One product for both weights if their layout allows
};

// Returns the calls for hidden columns first … first + columns - 1. If h was not kept, `h_storage` receives it.
BackwardSteps make_backward_steps(const GatedBackward& call, std::int64_t first, std::int64_t columns, void* h_storage);

}  // namespace ridge::ops::cuda
