// Sorts rows by the groups that indices assign to them, as input of a grouped product (product/problem.h), or restores
// the original order. Example: for indices 2, 0, 2 and three groups the sorted rows are those of indices 1, 0 and 2;
// groups start at rows 0, 1 and 1 and end at 3.
#pragma once

#include <cstdint>

#include "ridge/base/dtype.h"
#include "ridge/base/reason.h"

namespace ridge::ops {

// Tensors in order: indices, rows, row map, sorted rows; with `restores_order`: row map, sorted rows, result. Rows are
// `width` contiguous elements. Index i is the group of row i / indices_per_row, so a row may go to several groups.
// Within a group rows keep the order of their indices; each group keeps its first `capacity` rows (0 keeps all). A row
// that is not kept, or whose index is no group, returns as zeros. The row map has int32 elements: `groups` + 1 starts
// of groups, then for each index its sorted row or -1, then `groups` elements of scratch.
struct RoutingProblem {
  bool restores_order = false;
  DType values = DType::f32, indices = DType::int32;
  std::int64_t index_count = 0, indices_per_row = 1;
  std::int64_t groups = 1, width = 0, capacity = 0;
  std::int64_t row_map_elements() const { return 2 * groups + 1 + index_count; }
  // Returns the number of sorted rows for which there is memory.
  std::int64_t sorted_rows() const {
    return capacity > 0 && capacity <= index_count / groups ? capacity * groups : index_count;
  }
  bool operator==(const RoutingProblem&) const = default;
};

// Returns why no target supports the problem: row numbers must fit in int32.
Reason unsupported_reason(const RoutingProblem& rows);

}  // namespace ridge::ops
