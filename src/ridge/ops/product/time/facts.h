// Why a product's plan takes what it takes, in counts. 2049 x 2049 x 2049 in bf16: its rows start every 4098 bytes, no
// multiple of the 16 that the copy engine reads, so both operands are copied first, 33.6 MB of the 58.8 MB from memory.
#pragma once

#include "ridge/ops/model.h"
#include "ridge/ops/product/cuda.h"

namespace ridge::ops {

double product_bytes(const MatmulProblem& problem);   // each operand read, the result written, once
MatmulProblem padded_to_eight(const MatmulProblem&);  // sizes and lines at the next multiples of 8 elements

PlanFacts cpu_facts(const MatmulProblem& problem, int threads);

namespace cuda {

// Of a plan of tiles; others have no facts but their bytes.
PlanFacts facts(const MatmulProblem& problem, const MatmulPlan& plan, const DeviceNumbers& device);

}  // namespace cuda
}  // namespace ridge::ops
