// Settings of dimensions: a value, several values, a split over chips. They are parsed from B=256, B=1..4096:*2 and D=2
// on the command line (program/bindings.h, program/ranges.h, roofline/split.h).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace ridge {

// Values of dimensions by name, each at least 1.
using Bindings = std::map<std::string, std::int64_t>;

struct DimensionValues {
  std::string dim;
  std::vector<std::int64_t> values;  // at least one value; each at least 1, in the given order
};

// A dimension split into equal parts, one per chip, and other dimensions split at the same time.
struct DimensionSplit {
  std::string dim;
  std::int64_t chips = 1;  // 1 to 2^20
  std::vector<DimensionSplit> other_splits = {};
};

}  // namespace ridge
