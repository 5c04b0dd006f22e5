// Where what a text of attention reads or writes lies in a CPU's memory. Internal to ops/attention; included by files
// that are compiled for one instruction set.
#pragma once

#include "ridge/ops/attention/problem.h"

namespace ridge::ops {
namespace {

// A view of `heads` heads of `rows` rows of `width` elements in each of the problem's groups; strides in elements.
template <class View> void place(View& view, DType dtype, const void* data, std::int64_t rows, std::int64_t width,
                                 std::int64_t heads, const HeadsLayout& at) {
  view.data = data;
  view.rows = rows;
  view.cols = width;
  view.row_stride = at.row;
  view.inner = heads;
  view.inner_stride = at.head;
  view.outer_stride = at.outer;
  view.on_target.dtype = dtype;
}

}  // namespace
}  // namespace ridge::ops
