// Counts that explain the time of a product's plan. Example: the rows of a 2049^3 product in bf16 start every 4098
// bytes. The copy engine requires multiples of 16, so both operands are copied, 33.6 MB of the 58.8 MB from memory.
#pragma once

#include "ridge/ops/model.h"
#include "ridge/ops/product/cuda.h"

namespace ridge::ops {

double min_product_bytes(const MatmulProblem& problem);  // Each operand read once, the result written once
MatmulProblem pad_to_eight(const MatmulProblem&);        // Rounds sizes and strides up to multiples of 8

PlanProperties cpu_plan_properties(const MatmulProblem& problem, int threads);

namespace cuda {

// Returns the properties of a plan of tiles; for other plans only `min_bytes`.
PlanProperties plan_properties(const MatmulProblem& problem, const MatmulPlan& plan, const DeviceNumbers& device);

}  // namespace cuda
}  // namespace ridge::ops
