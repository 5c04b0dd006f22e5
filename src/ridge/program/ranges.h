// Several values of a dimension as a user writes them: B=1..4096:*2, D=1024,2048, S=128..512:128, H=64.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ridge/base/result.h"
#include "ridge/symbol/dimensions.h"

namespace ridge {

inline constexpr std::int64_t max_range_values = std::int64_t{1} << 24;

// From a to b in steps of 1 (a..b), of s (a..b:s) or times s (a..b:*s); b is the last value where a step meets it.
// Lists join such pieces by commas. Errors, of kind usage: another form, more than 2^24 values.
Result<Range> parse_range(const std::string& text);

}  // namespace ridge
