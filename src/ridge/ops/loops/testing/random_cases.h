// Random problems of the loops for tests on CPUs and on devices.
#pragma once

#include <algorithm>

#include "ridge/ops/loops/problem.h"
#include "ridge/ops/loops/testing/random_layout.h"

namespace ridge::ops::loops_testing {

struct IndexedCase {
  GatherScatterLoops l;
  std::int64_t values = 1, indices = 1;  // Number of elements
};

// Random axes: of the indices only, of the rows only, or of both (a batch). Large rows take the kernels for rows.
inline IndexedCase make_indexed_case(RandomLayouts& random, bool is_scatter) {
  const std::int64_t axes = 1 + random.below(4), index_extent = 1 + random.below(40);
  std::vector<std::int64_t> values, indices, result;
  IndexedCase out;
  out.l.is_scatter = is_scatter;
  for (std::int64_t a = 0; a < axes; ++a) {
    const bool is_last = a + 1 == axes;
    const std::int64_t extent = 1 + random.below(is_last && random.flip() ? 300 : 7), kind = random.below(3);
    const bool in_indices = kind != 0 && !(is_last && random.flip()), in_rows = kind != 1 || !in_indices;
    out.l.axes.push_back({.extent = extent});
    indices.push_back(in_indices ? extent : 0);
    values.push_back(in_rows || is_scatter ? extent : 0);  // A scatter reads a value at each point
    result.push_back(in_rows || !is_scatter ? extent : 0);
  }
  (is_scatter ? result : values).push_back(index_extent);
  const auto v = random.strides(values, true), i = random.strides(indices, true), r = random.strides(result, false);
  for (std::size_t a = 0; a < out.l.axes.size(); ++a) {
    out.l.axes[a].values = v.strides[a];
    out.l.axes[a].indices = i.strides[a];
    out.l.axes[a].result = r.strides[a];
  }
  out.l.index_extent = index_extent;
  out.l.index_stride = (is_scatter ? r : v).strides.back();
  out.l.result_elements = r.elements;
  out.l.values = random.float_dtype();
  out.l.result = random.flip() ? out.l.values : random.float_dtype();
  out.l.indices = random.flip() ? DType::int32 : DType::int8;
  out.values = v.elements;
  out.indices = i.elements;
  return out;
}

struct SumCase {
  RunningSumLoops l;
  std::int64_t values = 1, results = 1;  // Number of elements
};

inline SumCase make_sum_case(RandomLayouts& random) {
  const std::int64_t axes = 1 + random.below(3);
  const std::int64_t summed_axis = random.below(axes);
  std::vector<std::int64_t> extents;
  const std::int64_t longest = axes == 1 ? 20000 : 130;
  for (std::int64_t a = 0; a < axes; ++a) extents.push_back(1 + random.below(random.below(3) > 0 ? 6 : longest));
  const auto x = random.strides(extents, true), y = random.strides(extents, true);
  SumCase out{{random.float_dtype(), random.float_dtype(), {}, {}}, x.elements, y.elements};
  for (std::int64_t a = 0; a < axes; ++a) {
    const LoopAxis axis{extents[a], x.strides[a], 0, y.strides[a]};
    if (a == summed_axis)
      out.l.axis = axis;
    else
      out.l.axes.push_back(axis);
  }
  return out;
}

struct TopKCase {
  TopKLoops l;
  std::int64_t values = 1, results = 1;  // Number of elements
};

inline TopKCase make_topk_case(RandomLayouts& random) {
  const std::int64_t rows = 1 + random.below(5), batch = 1 + random.below(3),
                     sizes[] = {1 + random.below(20), 1 + random.below(300), 1 + random.below(9000)},
                     n = sizes[random.below(3)];
  const std::int64_t counts[] = {1, std::min<std::int64_t>(n, 1 + random.below(8)), 1 + random.below(n), n};
  const std::int64_t count = counts[random.below(4)];
  const auto x = random.strides({batch, rows, n}, true), y = random.strides({batch, rows, count}, false);
  TopKCase out{{.values = random.float_dtype(), .axes = {}, .axis = {n, x.strides[2], 0, 0}, .count = count}};
  out.l.axes = {{batch, x.strides[0], 0, y.strides[0]}, {rows, x.strides[1], 0, y.strides[1]}};
  out.l.result_stride = y.strides[2];
  out.values = x.elements;
  out.results = y.elements;
  return out;
}

struct PoolCase {
  PoolLoops l;
  std::int64_t inputs = 1, outputs = 1;  // Number of elements
};

inline PoolCase make_pool_case(RandomLayouts& random) {
  PoolCase out{{random.float_dtype(), random.float_dtype(), random.flip(), {}}};
  const std::int64_t rank = 1 + random.below(4);
  int pooled = 0;
  std::vector<std::int64_t> inputs, outputs;
  for (std::int64_t d = 0; d < rank; ++d) {
    PoolAxis axis;
    axis.in = axis.out = 1 + random.below(d + 1 == rank ? 70 : 6);
    if (pooled < max_pooled_axes && random.flip()) {
      ++pooled;
      axis.kernel = 1 + random.below(4);
      axis.stride = 1 + random.below(3);
      axis.dilation = 1 + random.below(2);
      axis.padding = random.below(3);
      const std::int64_t extent = axis.dilation * (axis.kernel - 1) + 1;
      axis.in = std::max(axis.in, extent - 2 * axis.padding);
      axis.out = (axis.in + 2 * axis.padding - extent) / axis.stride + 1;
    }
    inputs.push_back(axis.in);
    outputs.push_back(axis.out);
    out.l.axes.push_back(axis);
  }
  const auto x = random.strides(inputs, true), y = random.strides(outputs, random.flip());
  for (std::size_t d = 0; d < out.l.axes.size(); ++d) {
    out.l.axes[d].x_stride = x.strides[d];
    out.l.axes[d].y_stride = y.strides[d];
  }
  out.inputs = x.elements;
  out.outputs = y.elements;
  return out;
}

struct FoldCase {
  FoldLoops l;
  std::int64_t columns = 1, outputs = 1;  // Number of elements
};

inline FoldCase make_fold_case(RandomLayouts& random) {
  FoldCase out{{random.float_dtype(), random.float_dtype(), {}}};
  const std::int64_t rank = 1 + random.below(5);
  int windows = 0;
  std::vector<std::int64_t> columns, outputs;  // Positions, then taps
  for (std::int64_t d = 0; d < rank; ++d) {
    FoldAxis axis;
    axis.positions = axis.out = 1 + random.below(d + 1 == rank ? 70 : 5);
    if (windows < 3 && random.below(3) > 0) {
      ++windows;
      axis.taps = 1 + random.below(4);
      axis.stride = 1 + random.below(4);
      axis.dilation = 1 + random.below(3);
      axis.padding = random.below(4);
      const std::int64_t min_out =
          (axis.positions - 1) * axis.stride - 2 * axis.padding + axis.dilation * (axis.taps - 1) + 1;
      axis.out = std::max<std::int64_t>(min_out + random.below(std::max(axis.stride, axis.dilation)), 1);
    }
    columns.push_back(axis.positions);
    outputs.push_back(axis.out);
    out.l.axes.push_back(axis);
  }
  for (const FoldAxis& axis : out.l.axes) columns.push_back(axis.taps);
  const auto from = random.strides(columns, true), to = random.strides(outputs, random.flip());
  for (std::size_t d = 0; d < out.l.axes.size(); ++d) {
    out.l.axes[d].position_stride = from.strides[d];
    out.l.axes[d].tap_stride = from.strides[d + out.l.axes.size()];
    out.l.axes[d].y_stride = to.strides[d];
  }
  out.columns = from.elements;
  out.outputs = to.elements;
  return out;
}

// Returns a random convolution; with channels last, each channel of x is a group.
inline ConvLoops draw_convolution(RandomLayouts& random, bool channels_last) {
  ConvLoops out;
  out.x = random.float_dtype();
  out.w = random.float_dtype();
  out.y = random.float_dtype();
  const std::int64_t dimensions = 1 + random.below(3),
                     inputs = channels_last || random.flip() ? 1 : 1 + random.below(3);
  out.batch = 1 + random.below(3);
  out.groups = 1 + random.below(channels_last && random.flip() ? 100 : 9);
  out.channels = out.groups * inputs;
  out.out_channels = out.groups * (random.flip() ? 1 : 1 + random.below(3));
  out.stride = random.flip() ? 1 : 1 + random.below(3);
  out.dilation = random.flip() ? out.stride : 1 + random.below(3);
  out.padding = random.below(5);
  out.channels_last = channels_last;
  for (std::int64_t d = 0; d < dimensions; ++d) {
    ConvWindow window{.kernel = 1 + random.below(random.below(4) == 0 ? 13 : 7)};
    const std::int64_t reach = (window.kernel - 1) * out.dilation + 1;
    window.in = std::max<std::int64_t>(reach - 2 * out.padding, 1) + random.below(dimensions == 3 ? 6 : 60);
    window.out = (window.in + 2 * out.padding - reach) / out.stride + 1;
    out.windows.push_back(window);
  }
  return out;
}
// Returns a convolution that a device computes, in any order of channels.
inline ConvLoops make_convolution_case(RandomLayouts& random, bool channels_last) {
  ConvLoops out = draw_convolution(random, channels_last);
  while (channels_last && !can_convolve_channels_last(out)) out = draw_convolution(random, channels_last);
  return out;
}
// Returns the elements of a channel of x or y (&ConvWindow::in or out), or of a channel's kernel.
inline std::int64_t count_elements(const ConvLoops& conv, std::int64_t ConvWindow::*extent) {
  std::int64_t out = 1;
  for (const ConvWindow& window : conv.windows) out *= window.*extent;
  return out;
}

struct RotaryCase {
  RotaryLoops l;
  std::int64_t values = 1, positions = 1, results = 1;  // Number of elements
};

inline RotaryCase make_rotary_case(RandomLayouts& random) {
  const std::int64_t tokens = 1 + random.below(9), heads = 1 + random.below(4), n = 2 * (1 + random.below(70));
  const auto x = random.strides({tokens, heads, n}, true), t = random.strides({tokens, 0, 0}, true),
             y = random.strides({tokens, heads, n}, false);
  RotaryCase out;
  out.l = {.values = random.float_dtype(),
           .positions = random.flip() ? DType::int32 : DType::f32,
           .result = random.float_dtype(),
           .axes = {{tokens, x.strides[0], t.strides[0], y.strides[0]}, {heads, x.strides[1], 0, y.strides[1]}},
           .axis = {n, x.strides[2], 0, y.strides[2]},
           .base = random.flip() ? 10000.0 : 7.0,
           .interleaved = random.flip()};
  out.values = x.elements;
  out.positions = t.elements;
  out.results = y.elements;
  return out;
}

struct RoutedCase {
  RoutedProductLoops l;
  std::int64_t values = 1, weights = 1, indices = 1, results = 1;  // Number of elements
};

// Rows of x for each index or for all indices of a token; n and k are two axes each. Some layouts take packs.
inline RoutedCase make_routed_case(RandomLayouts& random) {
  const bool is_packed = random.flip(), has_slots = random.flip();
  const std::int64_t tokens = 1 + random.below(9), slots = 1 + random.below(4), n = 1 + random.below(40),
                     m = 1 + random.below(3), experts = 1 + random.below(9);
  const std::int64_t k = is_packed ? 8 * (1 + random.below(90)) : 1 + random.below(400);
  const auto x = random.strides({tokens, has_slots ? slots : 0, k}, !is_packed),
             w = random.strides({experts, m, n, k}, !is_packed), i = random.strides({tokens, slots}, true),
             y = random.strides({tokens, slots, m, n}, false);
  RoutedCase out;
  RoutedProductLoops& l = out.l;
  l.values = random.float_dtype();
  l.weights = is_packed ? l.values : random.float_dtype();
  l.indices = random.flip() ? DType::int32 : DType::int8;
  l.result = random.float_dtype();
  l.axes = {{tokens, x.strides[0], i.strides[0], y.strides[0]},
            {slots, has_slots ? x.strides[1] : 0, i.strides[1], y.strides[1]},
            {m, 0, 0, y.strides[2]},
            {n, 0, 0, y.strides[3]}};
  l.weight_strides = {0, 0, w.strides[1], w.strides[2]};
  l.summed = {{k, x.strides[2], 0, 0}};
  l.summed_weight_strides = {w.strides[3]};
  l.experts = experts;
  l.expert_stride = w.strides[0];
  l.index_count = i.elements;
  out.values = x.elements;
  out.weights = w.elements;
  out.indices = i.elements;
  out.results = y.elements;
  return out;
}

// Fills the positions of a rotation with values up to 2^20, with fractions if they are floats.
inline void fill_positions(RandomLayouts& random, DType dtype, const GuardedBuffer& out, std::int64_t positions) {
  for (std::int64_t i = 0; i < positions; ++i) {
    const std::int64_t position = random.below(random.flip() ? 20 : 1 << 20);
    if (dtype == DType::int32)
      out.as<std::int32_t>()[i] = static_cast<std::int32_t>(position);
    else
      RandomLayouts::store(dtype, out.data(), i, static_cast<float>(position) + 0.5f);
  }
}

// Returns random nodes in which the last one depends on the previous step most of the time. With `is_exact`, only nodes
// that a CPU and a device compute to the same bits.
inline std::vector<RecurrenceNode> make_scan_nodes(RandomLayouts& random, std::size_t axes, int operands,
                                                   bool is_exact) {
  std::vector<RecurrenceNode> out{{.kind = RecurrenceNode::Kind::previous}};
  for (int i = 0; i < operands; ++i) out.push_back({.kind = RecurrenceNode::Kind::load, .operand = i});
  if (random.flip())
    out.push_back(
        {.kind = RecurrenceNode::Kind::number, .number = (is_exact ? 1 : 0.1) * static_cast<double>(random.below(9))});
  if (random.flip())
    out.push_back({.kind = RecurrenceNode::Kind::index, .axis = static_cast<std::size_t>(random.below(axes))});
  // The first 14 have the same bits everywhere; the others may be contracted or approximated.
  const Function functions[] = {Function::add,   Function::subtract, Function::max,        Function::min,
                                Function::where, Function::clamp,    Function::less,       Function::greater,
                                Function::equal, Function::negate,   Function::abs,        Function::relu,
                                Function::floor, Function::round,    Function::multiply,   Function::divide,
                                Function::sign,  Function::sqrt,     Function::less_equal, Function::greater_equal};
  constexpr std::size_t exact_functions = 14;
  for (std::int64_t more = random.below(7); more > 0; --more) {
    const auto any = [&] { return static_cast<int>(random.below(static_cast<std::int64_t>(out.size()))); };
    const Function function = functions[random.below(is_exact ? exact_functions : std::size(functions))];
    RecurrenceNode call{.kind = RecurrenceNode::Kind::call, .function = function, .arguments = {}};
    for (int k = 0; k < function_info(function).arity; ++k) call.arguments.push_back(any());
    if (call.arguments.size() == 1) call.repeat = 1 + static_cast<int>(random.below(3));
    if (call.arguments.size() == 2) call.arguments[0] = static_cast<int>(out.size()) - 1;
    out.push_back(call);
  }
  return out;
}

struct ScanCase {
  RecurrenceLoops l;
  std::vector<std::int64_t> elements;  // Number of elements of each operand
};

inline ScanCase make_scan_case(RandomLayouts& random, bool is_exact = false) {
  ScanCase out;
  const std::int64_t axes = 1 + random.below(3), operands = 1 + random.below(3);
  for (std::int64_t a = 0; a < axes; ++a) {
    const std::int64_t sizes[] = {1 + random.below(5), 1 + random.below(40), 64 * (1 + random.below(5)),
                                  1 + random.below(300)};
    out.l.extents.push_back(sizes[random.below(axes == 3 ? 2 : 4)]);
  }
  for (std::int64_t i = 0; i <= operands; ++i) {
    std::vector<std::int64_t> extents = out.l.extents;
    for (std::int64_t& extent : extents)
      if (i < operands && random.below(4) == 0) extent = 0;  // Broadcast
    // The recurrence's axis is last in `extents`, but often not in memory.
    const bool swaps = axes > 1 && random.flip();
    if (swaps) std::swap(extents.front(), extents.back());
    auto layout = random.strides(extents, i < operands);
    if (swaps) std::swap(layout.strides.front(), layout.strides.back());
    out.l.operands.push_back({random.float_dtype(), layout.strides});
    out.elements.push_back(layout.elements);
  }
  out.l.nodes = make_scan_nodes(random, out.l.extents.size(), static_cast<int>(operands), is_exact);
  return out;
}

}  // namespace ridge::ops::loops_testing
