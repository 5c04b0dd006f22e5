// What a grouped problem (problem.h) must be like, on any target, and a product's groups one by one.
#pragma once

#include <optional>
#include <string>

#include "ridge/ops/product/call.h"

namespace ridge::ops {

// What stands in the way, as a sentence; none: there is nothing, or the problem is not grouped.
std::optional<std::string> refuse_groups(const MatmulProblem& problem);
// The same of where groups begin, which is read.
std::optional<std::string> refuse_starts(const MatmulCall& call);

// Group `i` of a call that is not refused, as a product of its own.
MatmulCall group_of(const MatmulCall& call, std::int64_t i);

}  // namespace ridge::ops
