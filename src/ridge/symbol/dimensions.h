// What may be said of dimensions: a value, several values, a cut over chips. The command line's spellings B=256,
// B=1..4096:*2 and D=2 become these (program/bindings.h, program/ranges.h, roofline/split.h).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace ridge {

// Values of dimensions, by name; each at least 1.
using Bindings = std::map<std::string, std::int64_t>;

struct Range {
  std::string dim;
  std::vector<std::int64_t> values;  // at least one, each at least 1, in the order written
};

// One dimension cut into equal parts, one a chip; and others cut at the same time.
struct Split {
  std::string dim;
  std::int64_t chips = 1;  // from 1 to 2^20
  std::vector<Split> also = {};
};

}  // namespace ridge
