// A gated layer's kernel on an H200: what was chosen, over what, what it moves. Internal to plan/.
#pragma once

#include "ridge/ops/fused/cuda.h"
#include "ridge/plan/predict.h"

namespace ridge {

// predicted_s is the model's alone. The call must not be refused.
OpPlan predict_gated(const ops::cuda::GatedCall& call);

}  // namespace ridge
