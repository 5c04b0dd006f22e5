// Folds (FoldLoops), for kernels that are generated at run time. A thread computes an element of y: it tests the taps
// of each axis and adds the columns whose position and tap reach it. Strides and dilations are constants, so that the
// tests take no division by variables.
#pragma once

#include "ridge/tile/cuda/vector_access.h"

namespace ridge::ops::cuda {

using namespace tile::cuda;

inline constexpr int max_fold_axes = 6;

// The axes are those of y in the order of its memory. `divisors` divide by `out` (divide_by).
template <class Index> struct FoldSizes {
  const char* columns;
  char* y;
  Index positions[max_fold_axes], out[max_fold_axes];
  u64 divisors[max_fold_axes];
  i64 position_strides[max_fold_axes], tap_strides[max_fold_axes], y_strides[max_fold_axes];
};

struct FoldShape {
  NumberFormat columns, y;
  int axes;
  bool has_window[max_fold_axes];
  int taps[max_fold_axes], stride[max_fold_axes], padding[max_fold_axes], dilation[max_fold_axes];
};

// Returns the offset of the column of a tap that reaches output `at`, which includes the padding, or -1 if none does.
template <FoldShape c, int axis, class Index> RIDGE_FN i64 find_column(const FoldSizes<Index>& s, Index at, int tap) {
  const Index before = static_cast<Index>(tap) * static_cast<Index>(c.dilation[axis]), distance = at - before;
  const Index position = distance / static_cast<Index>(c.stride[axis]);
  if (at < before || position * static_cast<Index>(c.stride[axis]) != distance || position >= s.positions[axis])
    return -1;
  return static_cast<i64>(position) * s.position_strides[axis] + tap * s.tap_strides[axis];
}

// Adds the columns that all axes but the last select; `from` is the offset along the last axis and those before `axis`.
template <FoldShape c, int axis, class Index>
RIDGE_FN void add_columns(const FoldSizes<Index>& s, const Index (&at)[c.axes], i64 from, float& sum) {
  if constexpr (axis == c.axes - 1) {
    sum += read_one<c.columns>(s.columns, from);
  } else if constexpr (!c.has_window[axis]) {
    add_columns<c, axis + 1>(s, at, from + static_cast<i64>(at[axis]) * s.position_strides[axis], sum);
  } else {
    constexpr int unrolled = c.taps[axis] <= 8 ? c.taps[axis] : 1;
#pragma unroll unrolled
    for (int tap = 0; tap < c.taps[axis]; ++tap) {
      const i64 column = find_column<c, axis>(s, at[axis], tap);
      if (column >= 0) add_columns<c, axis + 1>(s, at, from + column, sum);
    }
  }
}

template <FoldShape c, class Index> RIDGE_FN void fold(const FoldSizes<Index>& s, Index item) {
  constexpr int last = c.axes - 1;
  Index at[c.axes];
  i64 to = 0;
#pragma unroll
  for (int axis = last; axis >= 0; --axis) {
    const Index rest = axis == 0 ? 0 : divide_by(item, s.divisors[axis]), o = item - rest * s.out[axis];
    item = rest;
    to += static_cast<i64>(o) * s.y_strides[axis];
    at[axis] = o + static_cast<Index>(c.padding[axis]);
  }
  float sum = 0;
  if constexpr (!c.has_window[last]) {
    add_columns<c, 0>(s, at, static_cast<i64>(at[last]) * s.position_strides[last], sum);
  } else {
    constexpr int unrolled = c.taps[last] <= 8 ? c.taps[last] : 1;
#pragma unroll unrolled
    for (int tap = 0; tap < c.taps[last]; ++tap) {
      const i64 column = find_column<c, last>(s, at[last], tap);
      float part = 0;
      if (column >= 0) add_columns<c, 0>(s, at, column, part);
      sum += part;
    }
  }
  write_one<c.y>(s.y, to, sum);
}

}  // namespace ridge::ops::cuda
