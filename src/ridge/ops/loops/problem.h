// Convolutions, gathers, scatters, running sums and other operations as structs.
#pragma once

#include <cstdint>
#include <vector>

#include "ridge/base/dtype.h"
#include "ridge/base/function.h"
#include "ridge/base/reason.h"

namespace ridge::ops {

// y[n, k, o…] = sum of x[n, c, o*stride + i*dilation - padding…] * w[k, c, i…] over c and i, where x is 0 outside.
// Tensors are dense in this order. Each of `groups` groups of output channels reads channels / groups channels of x.
struct ConvWindow {
  std::int64_t in = 1, out = 1, kernel = 1;
  bool operator==(const ConvWindow&) const = default;
};
struct ConvLoops {
  DType x = DType::f32, w = DType::f32, y = DType::f32;
  std::int64_t batch = 1, channels = 1, out_channels = 1, groups = 1;
  std::vector<ConvWindow> windows;  // One to three
  std::int64_t stride = 1, padding = 0, dilation = 1;
  bool channels_last = false;  // x[N, H, W, C] and y[N, P, Q, K] rather than x[N, C, H, W] and y[N, K, P, Q]
  bool operator==(const ConvLoops&) const = default;
};

// Returns the f32 elements that a thread needs to run a convolution directly (direct_convolution.h). Large paddings and
// strides need far more than the tensors have.
double direct_convolution_scratch(const ConvLoops& conv);

// True if a CPU computes vectors of one pixel of many channels. Only then may x and y have channels last on a CPU.
bool uses_channel_blocks(const ConvLoops& conv);
// True if a device has a kernel for channels last: each channel of x is a group, and a row of the window is so short
// that a thread keeps its pixels in registers.
bool can_convolve_channels_last(const ConvLoops& conv);

// Extent of one loop and its strides in three tensors, in elements.
struct LoopAxis {
  std::int64_t extent = 1, values = 0, indices = 0, result = 0;
  bool operator==(const LoopAxis&) const = default;
};

// Gather or scatter. At each point of `axes`, the index selects the element of the values that is read (gather) or the
// element of the result that is added to (scatter). A scatter adds in f32; a CPU uses the result if that is f32,
// otherwise a buffer of the same size.
struct GatherScatterLoops {
  bool is_scatter = false;
  DType values = DType::f32, indices = DType::int32, result = DType::f32;
  std::vector<LoopAxis> axes;
  std::int64_t index_extent = 1, index_stride = 0;  // Number of valid indices, and the stride between them
  std::int64_t result_elements = 0;
  bool operator==(const GatherScatterLoops&) const = default;
};

// result[t] = values[0] + … + values[t] along `axis`, at each point of `axes`.
struct RunningSumLoops {
  DType values = DType::f32, result = DType::f32;
  std::vector<LoopAxis> axes;
  LoopAxis axis;
  bool operator==(const RunningSumLoops&) const = default;
};

// Indices of the `count` largest values along `axis` at each point, largest first, or of the smallest in ascending
// order; ties keep their order; NaNs come last. `stores_values`: the values instead of their indices.
struct TopKLoops {
  DType values = DType::f32, result = DType::int32;
  std::vector<LoopAxis> axes;
  LoopAxis axis;
  std::int64_t count = 1, result_stride = 0;
  bool ascending = false, stores_values = false;
  bool operator==(const TopKLoops&) const = default;
};

// The maximum or the mean of the elements of x in each window. Axes without a window have a kernel of 1; at most three
// have one. Padding is -inf for a maximum; a mean counts it as zeros.
inline constexpr int max_pooled_axes = 3;
struct PoolAxis {
  std::int64_t in = 1, out = 1, kernel = 1, stride = 1, padding = 0, dilation = 1;
  std::int64_t x_stride = 1, y_stride = 1;  // Strides of the tensors in elements
  bool is_pooled() const { return kernel != 1 || stride != 1 || padding != 0; }
  bool operator==(const PoolAxis&) const = default;
};
struct PoolLoops {
  DType x = DType::f32, y = DType::f32;
  bool is_maximum = true;
  std::vector<PoolAxis> axes;
  bool operator==(const PoolLoops&) const = default;
};

// Sums of overlapping windows (col2im): the products of a transposed convolution, `columns`, are added where they
// overlap. y[o…] is the sum of columns[p, i…] over the positions p and the taps i of each axis with p*stride +
// i*dilation - padding = o, or 0 if there is none. Axes without a window have one tap. Sums are f32.
struct FoldAxis {
  std::int64_t positions = 1, out = 1, taps = 1, stride = 1, padding = 0, dilation = 1;
  std::int64_t position_stride = 1, tap_stride = 0, y_stride = 1;  // Strides of the columns and of y in elements
  bool has_window() const { return taps != 1 || stride != 1 || padding != 0 || positions != out; }
  bool operator==(const FoldAxis&) const = default;
};
struct FoldLoops {
  DType columns = DType::f32, y = DType::f32;
  std::vector<FoldAxis> axes;  // In the order of y's memory, so that the last one has adjacent elements
  bool operator==(const FoldLoops&) const = default;
};
// Returns the axes without those of one element; adjacent ones without a window are merged where strides allow it.
std::vector<FoldAxis> merge_fold_axes(const std::vector<FoldAxis>& axes);

// Rotates pairs of the elements along `axis` at each point of `axes`: (a, b) becomes (a cos r - b sin r, b cos r + a
// sin r), where r is the position times base^(-2i/n) for pair i of n elements. A pair is i and i + n/2, or 2i and 2i
// + 1. The axes' `indices` are the strides of the positions, whose dtype is f32, bf16, f16, int32 or int8.
struct RotaryLoops {
  DType values = DType::f32, positions = DType::int32, result = DType::f32;
  std::vector<LoopAxis> axes;
  LoopAxis axis;
  double base = 10'000;
  bool interleaved = false;
  bool operator==(const RotaryLoops&) const = default;
};

// result = the sum over `summed` of values * weights of the expert that the index selects. `weight_strides` are the
// weights' strides along `axes`. Only the first `capacity` indices of each expert count (0 counts all); the result of
// the others is 0.
struct RoutedProductLoops {
  DType values = DType::f32, weights = DType::f32, indices = DType::int32, result = DType::f32;
  std::vector<LoopAxis> axes = {}, summed = {};
  std::vector<std::int64_t> weight_strides = {}, summed_weight_strides = {};
  std::int64_t experts = 1, expert_stride = 0, capacity = 0, index_count = 0;
  bool operator==(const RoutedProductLoops&) const = default;
};

// A recurrence along the last axis: each step evaluates the nodes in order, and the last node is the step's result.
struct RecurrenceNode {
  enum class Kind { load, number, index, previous, call } kind = Kind::number;
  Function function = {};
  std::vector<int> arguments = {};
  int repeat = 1;
  double number = 0;
  int operand = 0;       // Operand that a `load` reads
  std::size_t axis = 0;  // Axis whose index an `index` returns
  bool operator==(const RecurrenceNode&) const = default;
};
struct RecurrenceOperand {
  DType dtype = DType::f32;
  std::vector<std::int64_t> strides;  // Stride along each axis, in elements
  bool operator==(const RecurrenceOperand&) const = default;
};
struct RecurrenceLoops {
  std::vector<std::int64_t> extents;        // Extent of each axis; the recurrence's axis is last
  std::vector<RecurrenceOperand> operands;  // The last one is the result
  std::vector<RecurrenceNode> nodes;
  bool operator==(const RecurrenceLoops&) const = default;
};

// Quantizes values along `axis` in blocks that share a scale, at each point of `axes`.
struct QuantizeLoops {
  DType values = DType::f32, result = DType::mxfp8;
  std::vector<LoopAxis> axes;
  LoopAxis axis;
  bool operator==(const QuantizeLoops&) const = default;
};

// Converts the contiguous elements of a block-scaled tensor to bf16 or f32 and, on a device, a multiple of 32 elements
// of int8 or e4m3 to bf16, f16 or f32.
struct DequantizeLoops {
  DType values = DType::mxfp8, result = DType::bf16;
  std::int64_t elements = 0;
  bool operator==(const DequantizeLoops&) const = default;
};

inline Reason unsupported_reason(const QuantizeLoops&) { return {}; }
inline Reason unsupported_reason(const DequantizeLoops&) { return {}; }
inline Reason unsupported_reason(const TopKLoops&) { return {}; }
inline Reason unsupported_reason(const PoolLoops&) { return {}; }
inline Reason unsupported_reason(const FoldLoops&) { return {}; }
inline Reason unsupported_reason(const RotaryLoops&) { return {}; }
inline Reason unsupported_reason(const RoutedProductLoops&) { return {}; }
inline Reason unsupported_reason(const RecurrenceLoops&) { return {}; }
inline Reason unsupported_reason(const ConvLoops&) { return {}; }
inline Reason unsupported_reason(const GatherScatterLoops&) { return {}; }
inline Reason unsupported_reason(const RunningSumLoops&) { return {}; }

}  // namespace ridge::ops
