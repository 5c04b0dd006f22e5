// What is wrong with where a result of attention lies, as a sentence. Internal to ops/attention.
#pragma once

#include <fmt/format.h>

#include <optional>
#include <string>

#include "ridge/ops/attention/problem.h"

namespace ridge::ops {

// Of `heads` heads of `rows` rows in each of the problem's groups: two elements in one place.
inline std::optional<std::string> refused_layout(const char* name, const HeadsLayout& x, const AttentionProblem& p,
                                                 std::int64_t heads, std::int64_t rows) {
  if ((p.outer > 1 && x.outer == 0) || (heads > 1 && x.head == 0))
    return fmt::format("{}'s heads lie in one place: expected strides above 0, found {} and {} for {} x {} heads", name,
                       x.outer, x.head, p.outer, heads);
  if (x.row < p.width && rows > 1)
    return fmt::format("{}'s rows overlap: expected a row stride of at least {}, found {}", name, p.width, x.row);
  return std::nullopt;
}

}  // namespace ridge::ops
