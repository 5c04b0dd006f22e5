// Membership in a range.
#pragma once

#include <algorithm>
#include <iterator>

namespace ridge {

// True if an element of the range equals the value.
template <class Range, class Value> bool contains(const Range& range, const Value& value) {
  return std::find(std::begin(range), std::end(range), value) != std::end(range);
}

}  // namespace ridge
