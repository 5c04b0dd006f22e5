// Rows that indices name groups for, brought into the order of the groups and back, as a grouped product
// (product/problem.h) takes them: with indices 2, 0, 2 and three groups, index 1's row lies first, then those of
// indices 0 and 2, and groups begin at 0, 1, 1 and end at 3.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "ridge/base/dtype.h"

namespace ridge::ops {

// Tensors, in order: the indices, the rows, `places` and the rows in order; on the way back `places`, the rows in order
// and the result. Rows are `width` elements, dense. Index i names the group of row i / each, so a row may go to several
// groups. Within a group rows lie in the order of their indices; of each group only the first `capacity` are kept (0:
// all). Whoever was not kept, and whose index names no group, comes back as zeros. `places`: int32, `groups` + 1
// numbers that say where groups begin, then for each index the row that it has, or -1; the next `groups` are scratch.
struct RoutedRows {
  bool back = false;
  DType values = DType::f32, indices = DType::int32;
  std::int64_t count = 0, each = 1;  // of indices, and how many of them a row has
  std::int64_t groups = 1, width = 0, capacity = 0;
  std::int64_t places() const { return 2 * groups + 1 + count; }
  bool operator==(const RoutedRows&) const = default;
};

// Where it may lie; on a device too. Numbers of rows are int32.
std::optional<std::string> refuse(const RoutedRows& rows);

}  // namespace ridge::ops
