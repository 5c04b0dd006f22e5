// Convolutions, pools and resizing. Elements of a window in the padding are neither read nor counted.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ridge/onnx/operator.h"
#include "ridge/roofline/operators/windows_of_sizes.h"

namespace ridge::onnx {
namespace {

constexpr std::int64_t max_window_option = 1 << 16;  // Largest kernel, stride, padding and dilation

// Windows of an operator along its spatial axes.
struct Windows {
  std::vector<SizedWindows> axes;
  Count count_elements() const {
    Count out = 1;
    for (const SizedWindows& axis : axes) out = multiply_counts(out, count_window_elements(axis));
    return out;
  }
  Count count_read() const {
    Count out = 1;
    for (const SizedWindows& axis : axes) out = multiply_counts(out, count_read_elements(axis));
    return out;
  }
};

// Returns the values of an attribute with one number for each axis, each within `low` and `max_window_option`.
Result<std::vector<std::int64_t>> window_option(const Operator& op, std::string_view name, std::size_t count,
                                                std::int64_t otherwise, std::int64_t low) {
  auto values = op.integers(name).value_or(std::vector<std::int64_t>(count, otherwise));
  const auto is_in_range = [&](std::int64_t x) { return x >= low && x <= max_window_option; };
  if (values.size() == count && std::all_of(values.begin(), values.end(), is_in_range)) return values;
  return op.error(fmt::format("expected {} numbers from {} to 2^16 as {}", count, low, name));
}

// Sets the number of windows of an axis, from sizes and padding or from auto_pad.
Status place_windows(const Operator& op, std::int64_t padding_end, bool rounds_up, SizedWindows& w) {
  const std::string_view automatic = op.text("auto_pad", "NOTSET");
  const std::int64_t span = (w.kernel - 1) * w.dilation + 1;
  if (automatic == "SAME_UPPER" || automatic == "SAME_LOWER") {
    w.windows = (w.size + w.stride - 1) / w.stride;
    const std::int64_t all = std::max<std::int64_t>(0, (w.windows - 1) * w.stride + span - w.size);
    w.padding = automatic == "SAME_UPPER" ? all / 2 : all - all / 2;
    return Done{};
  }
  if (automatic == "VALID") w.padding = padding_end = 0;
  const std::int64_t free_elements = w.size + w.padding + padding_end - span;
  if (free_elements < 0)
    return op.error(
        fmt::format("expected windows of at most {} elements, found {}", w.size + w.padding + padding_end, span));
  w.windows = free_elements / w.stride + 1;
  if (rounds_up && free_elements % w.stride != 0 && w.windows * w.stride < w.size + w.padding) ++w.windows;
  return Done{};
}

Result<Windows> find_windows(const Operator& op, const Shape& spatial, const Shape& kernel, bool rounds_up) {
  const std::size_t count = spatial.size();
  RIDGE_TRY(strides, window_option(op, "strides", count, 1, 1));
  RIDGE_TRY(dilations, window_option(op, "dilations", count, 1, 1));
  RIDGE_TRY(pads, window_option(op, "pads", 2 * count, 0, 0));
  Windows out;
  for (std::size_t i = 0; i < count; ++i) {
    if (kernel[i] < 1 || kernel[i] > max_window_option)
      return op.error(fmt::format("expected a kernel from 1 to 2^16, found {}", kernel[i]));
    SizedWindows w{spatial[i], 1, kernel[i], strides[i], pads[i], dilations[i]};
    RIDGE_TRY_STATUS(place_windows(op, pads[count + i], rounds_up, w));
    out.axes.push_back(w);
  }
  return out;
}

Shape spatial_axes(const ModelTensor& tensor) { return Shape(tensor.shape.begin() + 2, tensor.shape.end()); }

// Checks an image [N, C, ...] and weights of the same rank.
Status check_ranks(const Operator& op, const ModelTensor& x, const ModelTensor& w) {
  if (x.shape.size() >= 3 && x.shape.size() == w.shape.size()) return Done{};
  return op.error(fmt::format("expected an input and weights of the same number of axes, at least 3, found {} and {}",
                              format_shape(x.shape), format_shape(w.shape)));
}

// x[N, C, ...], w[K, C / groups, ...]: inputs `x_at` and `w_at`.
Status define_convolution_of(Operator& op, std::size_t x_at, std::size_t w_at, int type) {
  RIDGE_TRY(x, op.input(x_at));
  RIDGE_TRY(w, op.input(w_at));
  RIDGE_TRY_STATUS(check_ranks(op, *x, *w));
  const std::int64_t groups = op.integer("group", 1);
  if (groups < 1 || groups > max_axis_size || w->shape[1] * groups != x->shape[1])
    return op.error(
        fmt::format("expected {} * groups = {} channels, found {} groups", w->shape[1], x->shape[1], groups));
  RIDGE_TRY(windows, find_windows(op, spatial_axes(*x), spatial_axes(*w), false));
  Shape shape{x->shape[0], w->shape[0]};
  for (const SizedWindows& axis : windows.axes) shape.push_back(axis.windows);
  RIDGE_TRY_STATUS(op.set_contraction(*x, *w));
  RIDGE_TRY_STATUS(op.set_output(0, std::move(shape), type));
  const Count channels = multiply_counts(Count{w->shape[0]} * w->shape[1], x->shape[0]);
  op.flops = multiply_counts(2 * channels, windows.count_elements());
  set_elements_read(op, x_at, multiply_counts(Count{x->shape[0]} * x->shape[1], windows.count_read()));
  return Done{};
}

Status define_convolution(Operator& op) {
  RIDGE_TRY(x, op.input(0));
  return define_convolution_of(op, 0, 1, x->type);
}
Status define_integer_convolution(Operator& op) { return define_convolution_of(op, 0, 1, int32_type); }
Status define_quantized_convolution(Operator& op) {
  RIDGE_TRY(x, op.input(0));
  return define_convolution_of(op, 0, 3, x->type);
}

// Size of the result of a transposed convolution along an axis, and its padding at the begin.
Result<SizedWindows> place_transposed(const Operator& op, std::size_t i, std::size_t count, std::int64_t size,
                                      std::int64_t kernel) {
  RIDGE_TRY(strides, window_option(op, "strides", count, 1, 1));
  RIDGE_TRY(dilations, window_option(op, "dilations", count, 1, 1));
  RIDGE_TRY(pads, window_option(op, "pads", 2 * count, 0, 0));
  RIDGE_TRY(extra, window_option(op, "output_padding", count, 0, 0));
  if (kernel < 1 || kernel > max_window_option)
    return op.error(fmt::format("expected a kernel from 1 to 2^16, found {}", kernel));
  const Count all = Count{strides[i]} * (size - 1) + extra[i] + (kernel - 1) * dilations[i] + 1;
  const std::string_view automatic = op.text("auto_pad", "NOTSET");
  const bool is_same = automatic == "SAME_UPPER" || automatic == "SAME_LOWER";
  const auto shape = op.integers("output_shape");
  if (shape && shape->size() != count) return op.error(fmt::format("expected {} sizes as output_shape", count));
  Count result = all - pads[i] - pads[count + i];
  if (shape || is_same) result = shape ? Count{(*shape)[i]} : Count{size} * strides[i];
  if (result < 0 || result > max_axis_size)
    return op.error("expected sizes from 0 to 2^48 in the result, found others");
  SizedWindows w{static_cast<std::int64_t>(result), size, kernel, strides[i], pads[i], dilations[i]};
  if (shape || is_same) {
    const auto removed = static_cast<std::int64_t>(std::max<Count>(0, all - result));
    w.padding = automatic == "SAME_UPPER" ? removed / 2 : removed - removed / 2;
  }
  return w;
}

// x[N, C, ...], w[C, K / groups, ...]. Its pairs are those of the convolution from the result back to x.
Status define_transposed_convolution(Operator& op) {
  RIDGE_TRY(x, op.input(0));
  RIDGE_TRY(w, op.input(1));
  RIDGE_TRY_STATUS(check_ranks(op, *x, *w));
  const std::int64_t groups = op.integer("group", 1);
  if (groups < 1 || groups > max_window_option || w->shape[0] != x->shape[1])
    return op.error(fmt::format("expected weights for {} channels, found {}", x->shape[1], w->shape[0]));
  const std::size_t count = x->shape.size() - 2;
  Windows windows;
  Shape shape{x->shape[0], std::min(w->shape[1], max_axis_size) * groups};
  for (std::size_t i = 0; i < count; ++i) {
    RIDGE_TRY(axis, place_transposed(op, i, count, x->shape[2 + i], w->shape[2 + i]));
    windows.axes.push_back(axis);
    shape.push_back(axis.size);
  }
  RIDGE_TRY_STATUS(op.set_contraction(*x, *w));
  RIDGE_TRY_STATUS(op.set_output(0, std::move(shape), x->type));
  const Count channels = multiply_counts(Count{w->shape[0]} * w->shape[1], x->shape[0]);
  op.flops = multiply_counts(2 * channels, windows.count_elements());
  return Done{};
}

// A pool takes one operation per element of a window.
Status define_pool(Operator& op) {
  RIDGE_TRY(x, op.input(0));
  const auto kernel = op.integers("kernel_shape");
  if (x->shape.size() < 3 || !kernel || kernel->size() != x->shape.size() - 2)
    return op.error(fmt::format("expected an input [N, C, ...] and a kernel size for each further axis, found {}",
                                format_shape(x->shape)));
  RIDGE_TRY(windows, find_windows(op, spatial_axes(*x), *kernel, op.integer("ceil_mode", 0) != 0));
  Shape shape{x->shape[0], x->shape[1]};
  for (const SizedWindows& axis : windows.axes) shape.push_back(axis.windows);
  const Count images = Count{x->shape[0]} * x->shape[1];
  op.flops = multiply_counts(images, windows.count_elements());
  set_elements_read(op, 0, multiply_counts(images, windows.count_read()));
  RIDGE_TRY_STATUS(op.set_output(0, shape, x->type));
  return op.set_output(1, shape, int64_type);
}

Status define_global_pool(Operator& op) {
  RIDGE_TRY(x, op.input(0));
  if (x->shape.size() < 2)
    return op.error(fmt::format("expected an input [N, C, ...], found {}", format_shape(x->shape)));
  op.flops = x->elements();
  Shape shape(x->shape.size(), 1);
  shape[0] = x->shape[0];
  shape[1] = x->shape[1];
  return op.set_output(0, std::move(shape), x->type);
}

// Returns the numbers of an input of scales. Error: they are unknown.
Result<std::vector<double>> known_scales(Operator& op, std::size_t i) {
  RIDGE_TRY_STATUS(op.known_integers(i));
  return *op.inputs[i]->values;
}

// Sizes of a resized tensor: from input `sizes`, or from scales.
Result<Shape> find_resized_shape(Operator& op, const ModelTensor& x, std::size_t scales_at, std::size_t sizes_at) {
  std::vector<std::size_t> axes;
  if (const auto given = op.integers("axes")) {
    for (const std::int64_t each : *given) {
      RIDGE_TRY(axis, op.axis(each, x.shape.size()));
      axes.push_back(axis);
    }
  } else {
    for (std::size_t i = 0; i < x.shape.size(); ++i) axes.push_back(i);
  }
  const bool by_sizes = op.has_input(sizes_at);
  std::vector<double> numbers;
  if (const Attribute* const scales = op.node.find_attribute("scales"); scales && !op.has_input(scales_at)) {
    numbers = scales->numbers;
  } else {
    RIDGE_TRY(known, known_scales(op, by_sizes ? sizes_at : scales_at));
    numbers = known;
  }
  if (numbers.size() != axes.size())
    return op.error(fmt::format("expected {} sizes or scales, found {}", axes.size(), numbers.size()));
  Shape shape = x.shape;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const double size = by_sizes ? numbers[i] : std::floor(static_cast<double>(x.shape[axes[i]]) * numbers[i]);
    if (!(size >= 0 && size <= static_cast<double>(max_axis_size)))
      return op.error(fmt::format("expected sizes from 0 to 2^48 in the result, found {}", size));
    shape[axes[i]] = static_cast<std::int64_t>(size);
  }
  return shape;
}

// Linear and cubic interpolation multiply and add 2 or 4 elements along each axis that changes.
Status define_resize(Operator& op) {
  RIDGE_TRY(x, op.input(0));
  const bool has_region = op.node.op == "Resize" && op.opset > 10;
  RIDGE_TRY(shape, find_resized_shape(op, *x, has_region ? 2 : 1, has_region ? 3 : max_tensor_rank));
  const std::string_view mode = op.text("mode", "nearest");
  Count per_element = mode == "nearest" ? 0 : 2;
  for (std::size_t i = 0; i < shape.size() && per_element > 0; ++i)
    if (shape[i] != x->shape[i]) per_element = multiply_counts(per_element, mode == "cubic" ? 4 : 2);
  RIDGE_TRY_STATUS(op.set_output(0, shape, x->type));
  op.flops = multiply_counts(per_element, count_elements(shape));
  if (mode == "nearest") set_elements_read(op, 0, count_elements(shape));
  return Done{};
}

constexpr NamedDefinition window_table[] = {
    {"AveragePool", define_pool},
    {"Conv", define_convolution},
    {"ConvInteger", define_integer_convolution},
    {"ConvTranspose", define_transposed_convolution},
    {"GlobalAveragePool", define_global_pool},
    {"GlobalMaxPool", define_global_pool},
    {"LpPool", define_pool},
    {"MaxPool", define_pool},
    {"QLinearConv", define_quantized_convolution},
    {"Resize", define_resize},
    {"Upsample", define_resize},
};

}  // namespace

std::span<const NamedDefinition> window_definitions() { return window_table; }

}  // namespace ridge::onnx
