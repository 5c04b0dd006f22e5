// A matrix product as a plain struct, independent of the target. plan/ lowers statements to it.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>

#include "ridge/base/dtype.h"
#include "ridge/base/product_size.h"
#include "ridge/base/reason.h"

namespace ridge::ops {

// A matrix in memory: element (r, c) of batch i is at data + i*batch_stride + r*row_stride + c*col_stride, in elements.
// One of row_stride and col_stride is 1, or the extent along that axis is at most 1. If batch_stride is 0, all products
// share the matrix.
struct MatrixLayout {
  DType dtype = DType::f32;
  std::int64_t row_stride = 0, col_stride = 1, batch_stride = 0;
  bool operator==(const MatrixLayout&) const = default;
};

// One dimension of the windows of a convolution; output o reads inputs o*stride + i*dilation - padding for i < kernel.
struct WindowAxis {
  std::int64_t in = 1, out = 1, kernel = 1, stride = 1, dilation = 1, padding = 0;
  bool operator==(const WindowAxis&) const = default;
};

// B as the windows of a convolution with dense input x[channel, in0, in1, in2]: row (channel, i0, i1, i2) and column
// (o0, o1, o2) of B is the element of x that output o reads for element i of the kernel, and 0 outside of x.
// Product i reads the input at i * b.batch_stride, and multiplies matrix i % groups of A.
struct ConvolutionWindows {
  std::array<WindowAxis, 3> axes;
  std::int64_t groups = 1;
  bool operator==(const ConvolutionWindows&) const = default;
};

// A as the windows of a convolution with input x[image, in0, in1, in2, channel], whose channels are contiguous. Row
// (image, o0, o1, o2) and column (i0, i1, i2, channel) of A is the element of x that output o reads for element i of
// the kernel, and 0 outside of x. Product i of the batch is a group: it reads `channels` channels from i * channels on.
struct PixelWindows {
  std::array<WindowAxis, 3> axes;
  std::int64_t images = 1, channels = 1;
  std::int64_t image_stride = 0;               // Strides are in elements
  std::array<std::int64_t, 3> axis_strides{};  // The last one is the distance between adjacent pixels
  std::int64_t tap_stride = 1;                 // Distance in B between two elements (i0, i1, i2) of the kernel
  bool has_three_axes() const { return axes[0] != WindowAxis{}; }
  std::int64_t count_taps() const { return axes[0].kernel * axes[1].kernel * axes[2].kernel; }
  // Returns the pixels of the input that some output reads.
  std::int64_t count_read_pixels() const {
    std::int64_t out = images;
    for (const WindowAxis& axis : axes) out *= std::min(axis.in, axis.out * axis.kernel);
    return out;
  }
  // Returns the elements from the input's first to its last one, of `groups` groups.
  std::int64_t count_memory_elements(std::int64_t groups) const {
    std::int64_t last = (images - 1) * image_stride;
    for (std::size_t i = 0; i < axes.size(); ++i) last += (axes[i].in - 1) * axis_strides[i];
    return last + groups * channels;
  }
  bool operator==(const PixelWindows&) const = default;
};

// D[i] = A[i] * B[i] for i < batch: A is m x k, B is k x n, D is m x n. Sizes may be 0 (k = 0 writes zeros). call.h
// lists the dtypes. A or B may be block-scaled (base/block_scale.h) on a CPU, with blocks along k: see
// `validate_scaled_operand`. On a device both may be e4m3_128, or one may be narrow weights: see `validate_scaled_pair`
// and `validate_narrow_weights`. If `grouped`, A and D are one matrix each, whose m rows are divided into `batch`
// consecutive groups; product i uses the rows of group i, possibly none (experts, sequences of different lengths).
// `MatmulCall::starts` has the first rows of the groups. If `windows` is given, no memory holds B, and if
// `pixel_windows` is given, no memory holds A: see above. CPUs support the former and Hopper the latter.
struct MatmulProblem {
  std::int64_t batch = 1;
  ProductSize size;
  MatrixLayout a, b, d;
  bool grouped = false;
  std::optional<ConvolutionWindows> windows = {};
  std::optional<PixelWindows> pixel_windows = {};
  bool operator==(const MatmulProblem&) const = default;
};

// Returns the dtype in which an operand is multiplied: a block-scaled one is converted to that of the other operand.
constexpr DType multiplied_dtype(DType operand, DType other) { return is_block_scaled(operand) ? other : operand; }

// Returns why a CPU cannot convert the block-scaled operand of a product while it packs it; nothing if it can, or if
// there is no such operand. k must be contiguous, and k and the strides multiples of the block. The other operand is
// f32, or bf16 if that is exact (all block-scaled dtypes but e4m3_128).
Reason validate_scaled_operand(const MatmulProblem& problem);

// Returns why a device cannot multiply two operands of e4m3_128 as they are stored (`BlockPlanes` in
// base/block_scale.h): in both, k must be contiguous and a multiple of the block, and lines have no gaps.
Reason validate_scaled_pair(const MatmulProblem& problem);

// Returns why the matrices of a block-scaled operand are not the planes of a tensor (`BlockPlanes` in
// base/block_scale.h), whose scales follow the elements: its lines along k have no gaps. `name` begins the message.
Reason validate_packed_lines(std::string_view name, const MatrixLayout& x, std::int64_t lines, std::int64_t k,
                             std::int64_t batch);

// True for the dtypes of weights that Hopper multiplies with 16-bit floats, as they are stored. Each value is exact in
// bf16, and those of int8 and e4m3 in f16; the scales of blocks of integers multiply sums in f32.
constexpr bool is_narrow_weight(DType dtype) {
  return dtype == DType::int8 || dtype == DType::e4m3 || (is_block_scaled(dtype) && dtype != DType::e4m3_128);
}
// True if one operand is narrow and the other is a 16-bit float.
constexpr bool has_narrow_weights(const MatmulProblem& p) {
  const auto is_16_bit = [](DType dtype) { return dtype == DType::bf16 || dtype == DType::f16; };
  return (is_narrow_weight(p.a.dtype) && is_16_bit(p.b.dtype)) || (is_narrow_weight(p.b.dtype) && is_16_bit(p.a.dtype));
}
// Returns why Hopper cannot multiply the narrow weights of a product as they are stored, or nothing if it can. They
// must be contiguous along k, and there are up to 64 rows of 16-bit floats.
Reason validate_narrow_weights(const MatmulProblem& problem);
// Returns why weights should be converted in memory first: Hopper cannot multiply them as they are stored or would be
// slower, or the copy engine cannot load their lines, which must start at multiples of 16 bytes.
Reason reason_to_convert_weights(const MatmulProblem& problem);

// Returns why Hopper's copy engine cannot load the windows of A and the weights of B.
Reason validate_pixel_windows(const MatmulProblem& problem);

// Returns a batched problem with groups of the mean length in place of a grouped problem, for counts and predictions,
// which do not know the lengths. Other problems are returned unchanged.
inline MatmulProblem to_uniform_batch(const MatmulProblem& p) {
  MatmulProblem out = p;
  if (!p.grouped || p.size.m == 0 || p.batch == 0) return out;
  out.grouped = false;
  out.batch = p.batch < p.size.m ? p.batch : p.size.m;
  out.size.m = (p.size.m + out.batch - 1) / out.batch;
  out.a.batch_stride = out.size.m * p.a.row_stride;
  out.d.batch_stride = out.size.m * p.d.row_stride;
  return out;
}

}  // namespace ridge::ops
