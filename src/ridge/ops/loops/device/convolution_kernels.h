// Convolutions in groups of few output channels (ConvLoops), for kernels that are generated at run time. Adjacent
// threads compute adjacent elements of a row of the result, and each thread those of several rows, to which every
// loaded element is added. Padding is multiplied as 0.
#pragma once

#include "ridge/tile/cuda/vector_access.h"

namespace ridge::ops::cuda {

using namespace tile::cuda;

// Missing leading dimensions have size 1. `inputs` and `outputs` are channels of a group.
struct ConvolutionSizes {
  const char *x, *w;
  char* y;
  u32 channels, inputs, out_channels, outputs;
  u32 in[3], out[3];
};

// The formats of x, w and y, and what is the same for all dimensions. `rows` is the number of rows of a thread;
// `padding` is that of the last dimension, and of the others unless they are missing.
struct ConvolutionWindow {
  NumberFormat x, w, y;
  int kernel[3], padding[3], stride, dilation, rows;
};

// Adds the products of one plane of an input channel and its kernel. `row` and `column` are the first ones that the
// thread's results read.
template <ConvolutionWindow c> RIDGE_FN void add_plane(const char* x, const char* w, i64 plane, i64 kernel,
                                                       bool has_plane, int row, int column,
                                                       const ConvolutionSizes& sizes, float (&sums)[c.rows]) {
  constexpr int height = c.kernel[1], width = c.kernel[2];
  constexpr int read_rows = (c.rows - 1) * c.stride + (height - 1) * c.dilation + 1;
  float weights[height * width];
#pragma unroll
  for (int i = 0; i < height * width; ++i) weights[i] = read_one<c.w>(w, kernel + i);
#pragma unroll
  for (int r = 0; r < read_rows; ++r) {
    const int from = row + r;
    const bool has_row = has_plane && static_cast<u32>(from) < sizes.in[1];
    const i64 line = plane + static_cast<i64>(from) * sizes.in[2];
#pragma unroll
    for (int t = 0; t < width; ++t) {
      const int at = column + t * c.dilation;
      const float value = read_one<c.x>(x, line + at, has_row && static_cast<u32>(at) < sizes.in[2]);
#pragma unroll
      for (int j = 0; j < height; ++j) {
        const int distance = r - j * c.dilation;
        if (distance >= 0 && distance % c.stride == 0 && distance / c.stride < c.rows)
          sums[distance / c.stride] = fmaf(value, weights[j * width + t], sums[distance / c.stride]);
      }
    }
  }
}
// The same for a large kernel and one row.
template <ConvolutionWindow c> RIDGE_FN void add_large_plane(const char* x, const char* w, i64 plane, i64 kernel,
                                                             bool has_plane, int row, int column,
                                                             const ConvolutionSizes& sizes, float& sum) {
  for (int j = 0; j < c.kernel[1]; ++j) {
    const int from = row + j * c.dilation;
    const bool has_row = has_plane && static_cast<u32>(from) < sizes.in[1];
    const i64 line = plane + static_cast<i64>(from) * sizes.in[2];
#pragma unroll 4
    for (int t = 0; t < c.kernel[2]; ++t) {
      const int at = column + t * c.dilation;
      const float value = read_one<c.x>(x, line + at, has_row && static_cast<u32>(at) < sizes.in[2]);
      sum = fmaf(value, read_one<c.w>(w, kernel + j * c.kernel[2] + t), sum);
    }
  }
}

// Position of a thread's first element in the result, and the channels that it reads.
struct ConvolutionItem {
  int column, row, depth;
  u32 k;
  i64 plane, first_channel;  // Plane of the result, and the first input channel of its group
};
template <class Index> RIDGE_FN ConvolutionItem find_item(const ConvolutionSizes& s, int rows, Index item) {
  ConvolutionItem out;
  const Index groups = (s.out[1] + rows - 1) / rows;
  const Index line = item / s.out[2], plane = line / groups, channel = plane / s.out[0],
              image = channel / s.out_channels;
  out.column = static_cast<int>(item - line * s.out[2]);
  out.row = static_cast<int>(line - plane * groups) * rows;
  out.depth = static_cast<int>(plane - channel * s.out[0]);
  out.k = static_cast<u32>(channel - image * s.out_channels);
  out.plane = static_cast<i64>(plane);
  out.first_channel = static_cast<i64>(image) * s.channels + out.k / s.outputs * s.inputs;
  return out;
}

// Computes up to c.rows elements of a column.
template <ConvolutionWindow c, bool is_large, class Index>
RIDGE_FN void convolve(const ConvolutionSizes& s, Index item) {
  const ConvolutionItem at = find_item(s, c.rows, item);
  const i64 plane_size = static_cast<i64>(s.in[1]) * s.in[2];
  constexpr int plane_kernel = c.kernel[1] * c.kernel[2];
  float sums[c.rows] = {};
  for (u32 channel = 0; channel < s.inputs; ++channel)
    for (int i = 0; i < c.kernel[0]; ++i) {
      const int from = at.depth * c.stride + i * c.dilation - c.padding[0];
      const bool has_plane = static_cast<u32>(from) < s.in[0];
      const i64 plane = ((at.first_channel + channel) * s.in[0] + from) * plane_size;
      const i64 kernel = ((static_cast<i64>(at.k) * s.inputs + channel) * c.kernel[0] + i) * plane_kernel;
      const int row = at.row * c.stride - c.padding[1], column = at.column * c.stride - c.padding[2];
      if constexpr (is_large)
        add_large_plane<c>(s.x, s.w, plane, kernel, has_plane, row, column, s, sums[0]);
      else
        add_plane<c>(s.x, s.w, plane, kernel, has_plane, row, column, s, sums);
    }
#pragma unroll
  for (int r = 0; r < c.rows; ++r)
    if (at.row + r < static_cast<int>(s.out[1]))
      write_one<c.y>(s.y, (at.plane * s.out[1] + at.row + r) * s.out[2] + at.column, sums[r]);
}

// Loads the elements of a row that one result reads.
template <ConvolutionWindow c>
RIDGE_FN void load_row(const ConvolutionSizes& s, i64 plane, int row, int column, float (&x)[c.kernel[2]]) {
  const bool has_row = static_cast<u32>(row) < s.in[1];
  const i64 line = plane + static_cast<i64>(row) * s.in[2];
#pragma unroll
  for (int t = 0; t < c.kernel[2]; ++t)
    x[t] = read_one<c.x>(s.x, line + column + t, has_row && static_cast<u32>(column + t) < s.in[2]);
}

// The same for one input channel, stride 1 and dilation 1, and any number of rows: each row is loaded once, before
// the previous one is used, and added to the sums of all results that read it. parts[j] is the sum to which the current
// row is added with row j of the kernel.
template <ConvolutionWindow c, class Index>
RIDGE_FN void convolve_down(const ConvolutionSizes& s, int rows, Index item) {
  constexpr int height = c.kernel[1], width = c.kernel[2];
  const ConvolutionItem at = find_item(s, rows, item);
  const i64 plane = at.first_channel * s.in[1] * s.in[2];
  float weights[height * width], parts[height] = {}, x[width], next[width];
#pragma unroll
  for (int i = 0; i < height * width; ++i)
    weights[i] = read_one<c.w>(s.w, static_cast<i64>(at.k) * (height * width) + i);
  const int first = at.row - c.padding[1], column = at.column - c.padding[2];
  const int last = min(rows, static_cast<int>(s.out[1]) - at.row) + height - 1;
  load_row<c>(s, plane, first, column, next);
  for (int r = 0; r < last; ++r) {
#pragma unroll
    for (int t = 0; t < width; ++t) x[t] = next[t];
    load_row<c>(s, plane, first + r + 1, column, next);
#pragma unroll
    for (int j = 0; j < height; ++j)
#pragma unroll
      for (int t = 0; t < width; ++t) parts[j] = fmaf(x[t], weights[j * width + t], parts[j]);
    if (r >= height - 1)
      write_one<c.y>(s.y, (at.plane * s.out[1] + at.row + r - (height - 1)) * s.out[2] + at.column, parts[height - 1]);
#pragma unroll
    for (int j = height - 1; j > 0; --j) parts[j] = parts[j - 1];
    parts[0] = 0;
  }
}

}  // namespace ridge::ops::cuda
