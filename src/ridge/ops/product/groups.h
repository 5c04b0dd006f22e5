// Validation of grouped problems (problem.h) for CPU and CUDA, and extraction of single groups.
#pragma once

#include "ridge/base/reason.h"
#include "ridge/ops/product/call.h"

namespace ridge::ops {

// Returns why the grouped problem is invalid.
Reason validate_groups(const MatmulProblem& problem);
// Returns why `call.starts` is invalid. `starts` must be readable by the host.
Reason validate_group_starts(const MatmulCall& call);

// Returns group `i` of a valid call as a separate product.
MatmulCall extract_group(const MatmulCall& call, std::int64_t i);

}  // namespace ridge::ops
