// A gated layer's kernel on an H200: what was chosen, over what, what it moves. Internal to plan/.
#pragma once

#include "ridge/kernels/fused_cuda.h"
#include "ridge/plan/predict.h"

namespace ridge {

// predicted_s is the model's alone. The call must not be refused.
OpPlan predict_gated(const kernels::cuda::GatedCall& call);

}  // namespace ridge
