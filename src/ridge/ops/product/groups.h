// Validation of grouped problems (problem.h) for CPU and CUDA, and extraction of single groups.
#pragma once

#include <optional>
#include <string>

#include "ridge/ops/product/call.h"

namespace ridge::ops {

// Returns why the grouped problem is invalid; nullopt if it is valid or not grouped.
std::optional<std::string> validate_groups(const MatmulProblem& problem);
// Returns why `call.starts` is invalid; nullopt if valid or not grouped. `starts` must be readable by the host.
std::optional<std::string> validate_group_starts(const MatmulCall& call);

// Returns group `i` of a valid call as a separate product.
MatmulCall extract_group(const MatmulCall& call, std::int64_t i);

}  // namespace ridge::ops
