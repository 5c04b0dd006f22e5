// Sets views of attention kernels to CPU memory. Internal to ops/attention; included by files that are compiled for one
// instruction set.
#pragma once

#include "ridge/ops/attention/problem.h"

namespace ridge::ops {
namespace {

// Sets `view` to groups of `heads` heads of `rows` rows of `width` elements at `data`; strides are in elements.
template <class View> void set_view(View& view, DType dtype, const void* data, std::int64_t rows, std::int64_t width,
                                    std::int64_t heads, const HeadsLayout& strides) {
  view.data = data;
  view.rows = rows;
  view.cols = width;
  view.row_stride = strides.row;
  view.inner = heads;
  view.inner_stride = strides.head;
  view.outer_stride = strides.outer;
  view.target.dtype = dtype;
}

}  // namespace
}  // namespace ridge::ops
