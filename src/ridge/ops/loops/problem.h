// Convolutions, gathers, scatters and running sums as plain structs: loops on a CPU do them, slowly and obviously. No
// plan of a device holds one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ridge/base/dtype.h"
#include "ridge/base/function.h"

namespace ridge::ops {

// y[n, k, o…] = sum of x[n, c, o*stride + i*dilation - padding…] * w[k, c, i…] over c and i, where x is 0 outside.
// Tensors lie densely in this order. Of `groups` groups of channels each sees its own part of x: w has channels/groups
// of them.
struct ConvWindow {
  std::int64_t in = 1, out = 1, kernel = 1;
  bool operator==(const ConvWindow&) const = default;
};
struct ConvLoops {
  DType x = DType::f32, w = DType::f32, y = DType::f32;
  std::int64_t batch = 1, channels = 1, made = 1, groups = 1;
  std::vector<ConvWindow> along;  // one to three
  std::int64_t stride = 1, padding = 0, dilation = 1;
  bool operator==(const ConvLoops&) const = default;
};

// Of one loop the strides in three tensors, in elements.
struct LoopAxis {
  std::int64_t extent = 1, values = 0, indices = 0, result = 0;
  bool operator==(const LoopAxis&) const = default;
};

// Walks `axes`; the index that it finds says where along `along` of the values (gather) or of the result (scatter) it
// reads or adds. A scatter adds in f32: in the result where that is f32, else in a buffer of its size.
struct IndexLoops {
  bool scatters = false;
  DType values = DType::f32, indices = DType::int32, result = DType::f32;
  std::vector<LoopAxis> axes;
  std::int64_t along = 1, along_stride = 0;  // how far an index may point, and how far one step is
  std::int64_t elements = 0;                 // of the result
  bool operator==(const IndexLoops&) const = default;
};

// result[t] = values[0] + … + values[t] along `along`, at each point of `axes`.
struct RunningLoops {
  DType values = DType::f32, result = DType::f32;
  std::vector<LoopAxis> axes;
  LoopAxis along;
  bool operator==(const RunningLoops&) const = default;
};

// The `chosen` largest of `along` at each point, largest first, of equals the first; a NaN is less than everything.
struct TopLoops {
  DType values = DType::f32, result = DType::int32;
  std::vector<LoopAxis> axes;
  LoopAxis along;                              // of the values
  std::int64_t chosen = 1, chosen_stride = 0;  // of the result
  bool operator==(const TopLoops&) const = default;
};

// result = the sum over `summed` of values * weights of the expert that the index at this point names. The strides of
// the weights stand beside those of the loops. Of each expert only the first `capacity` indices count (0: all), in the
// order in which they lie; the result of the others is 0.
struct RoutedLoops {
  DType values = DType::f32, weights = DType::f32, indices = DType::int32, result = DType::f32;
  std::vector<LoopAxis> axes = {}, summed = {};
  std::vector<std::int64_t> weight_strides = {}, summed_weight_strides = {};
  std::int64_t experts = 1, expert_stride = 0, capacity = 0, index_count = 0;
  bool operator==(const RoutedLoops&) const = default;
};

// A body of functions of each element, one step along `along` after the other. Nodes in the order of their arguments;
// the last one is the step's result.
struct ScanNode {
  enum class Kind { load, number, index, previous, call } kind = Kind::number;
  Function function = {};
  std::vector<int> arguments = {};
  int repeat = 1;
  double number = 0;
  int operand = 0;       // load: of `operands`
  std::size_t axis = 0;  // index: of the axes, `along` behind them
  bool operator==(const ScanNode&) const = default;
};
struct ScanOperand {
  DType dtype = DType::f32;
  std::vector<std::int64_t> strides;  // along each axis, `along` behind them
  bool operator==(const ScanOperand&) const = default;
};
struct ScanLoops {
  std::vector<std::int64_t> extents;  // of the axes, `along` behind them
  std::vector<ScanOperand> operands;  // the last one is the result
  std::vector<ScanNode> nodes;
  bool operator==(const ScanLoops&) const = default;
};

// Each point of `axes` is a row of values; a block of `along` is quantized at a time.
struct QuantizeLoops {
  DType values = DType::f32, result = DType::mxfp8;
  std::vector<LoopAxis> axes;
  LoopAxis along;
  bool operator==(const QuantizeLoops&) const = default;
};

// result = the sum over `summed` of left * right, of which one is block-scaled at least; the strides of right are those
// of indices.
struct ProductLoops {
  DType left = DType::f32, right = DType::f32, result = DType::f32;
  std::vector<LoopAxis> axes, summed;
  bool operator==(const ProductLoops&) const = default;
};

inline std::optional<std::string> refuse(const QuantizeLoops&) { return std::nullopt; }
inline std::optional<std::string> refuse(const ProductLoops&) { return std::nullopt; }
inline std::optional<std::string> refuse(const TopLoops&) { return std::nullopt; }
inline std::optional<std::string> refuse(const RoutedLoops&) { return std::nullopt; }
inline std::optional<std::string> refuse(const ScanLoops&) { return std::nullopt; }
inline std::optional<std::string> refuse(const ConvLoops&) { return std::nullopt; }
inline std::optional<std::string> refuse(const IndexLoops&) { return std::nullopt; }
inline std::optional<std::string> refuse(const RunningLoops&) { return std::nullopt; }

}  // namespace ridge::ops
