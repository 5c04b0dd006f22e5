// Checks that the rows and heads of an operand do not overlap. Internal to ops/attention.
#pragma once

#include <fmt/format.h>

#include "ridge/base/reason.h"
#include "ridge/ops/attention/problem.h"

namespace ridge::ops {

// Returns a reason if the elements of p.outer * `heads` heads of `rows` rows overlap in memory.
inline Reason validate_layout(const char* name, const HeadsLayout& x, const AttentionProblem& p, std::int64_t heads,
                              std::int64_t rows) {
  if ((p.outer > 1 && x.outer == 0) || (heads > 1 && x.head == 0))
    return fmt::format("{}'s heads overlap: expected strides above 0, found {} and {} for {} x {} heads", name, x.outer,
                       x.head, p.outer, heads);
  if (x.row < p.width && rows > 1)
    return fmt::format("{}'s rows overlap: expected a row stride of at least {}, found {}", name, p.width, x.row);
  return {};
}

}  // namespace ridge::ops
