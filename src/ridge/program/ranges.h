// Parses several values of a dimension: B=1..4096:*2, D=1024,2048, S=128..512:128, H=64.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ridge/base/result.h"
#include "ridge/symbol/dimensions.h"

namespace ridge {

inline constexpr std::int64_t max_range_values = std::int64_t{1} << 24;

// Ranges a..b have step 1, a..b:s step s, a..b:*s factor s; b is included if a step reaches it. Commas join ranges and
// values. Usage errors: invalid syntax, more than 2^24 values.
Result<DimensionValues> parse_range(const std::string& text);

}  // namespace ridge
