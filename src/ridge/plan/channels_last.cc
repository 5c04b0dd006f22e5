// Convolutions on a device: products of the windows of their input [N*P*Q, R*S*C] and their weights [R*S*C, K]. The
// copy engine loads windows only from memory with contiguous channels. Tensors that convolutions read or write, and
// those of the pointwise statements and pools between them, therefore have channels last in memory, [N, H, W, C];
// inputs and outputs of the program, which are row-major, are copied.
#include <fmt/format.h>

#include <algorithm>

#include "ridge/base/contains.h"
#include "ridge/base/dtype_set.h"
#include "ridge/base/operand_type.h"
#include "ridge/plan/lower.h"
#include "ridge/program/routine.h"

namespace ridge {
namespace {

constexpr std::int64_t pixel_unit = 8;  // the engine's strides are multiples of 16 bytes, 8 elements

std::int64_t round_up(std::int64_t x, std::int64_t to) { return (x + to - 1) / to * to; }

// True if the channels are contiguous and the copy engine can address all other strides. `shape` has the channels last.
bool has_channels_last(const Shape& shape) {
  return std::all_of(shape.begin(), shape.end(), [&](const SizedAxis& axis) {
    return axis.extent == 1 || (&axis == &shape.back() ? axis.stride == 1 : axis.stride % pixel_unit == 0);
  });
}
// True if also all elements of the kernel have one stride, as weights need it.
bool has_mergeable_taps(const Shape& weights) {
  for (std::size_t i = 1; i + 2 < weights.size(); ++i)
    if (weights[i].extent > 1 && weights[i].stride != weights[i + 1].stride * weights[i + 1].extent) return false;
  return true;
}

// Returns the shape of contiguous memory in the order of the axes, with adjacent pixels 16 bytes apart or a multiple.
Shape with_aligned_pixels(Shape shape) {
  std::int64_t stride = 1;
  for (auto axis = shape.rbegin(); axis != shape.rend(); ++axis) {
    axis->stride = stride;
    stride = axis == shape.rbegin() ? round_up(axis->extent, pixel_unit) : stride * axis->extent;
  }
  return shape;
}

// Replaces the strides of axes of one element, which address nothing, by those that memory with aligned pixels has.
Shape with_usual_unit_strides(Shape shape) {
  const Shape usual = with_aligned_pixels(shape);
  for (std::size_t i = 0; i < shape.size(); ++i)
    if (shape[i].extent == 1) shape[i].stride = usual[i].stride;
  return shape;
}

// Returns the axes of a tensor of a convolution in the order batch (or output channels), windows, channels.
Shape channels_last(Shape shape, const Routine& conv) {
  if (!conv.channels_last) std::rotate(shape.begin() + 1, shape.begin() + 2, shape.end());
  return shape;
}

// Returns the number of elements of memory that a shape with positive strides covers.
std::int64_t count_memory_elements(const Shape& shape) {
  std::int64_t last = 0;
  for (const SizedAxis& axis : shape) last += (axis.extent - 1) * axis.stride;
  return std::max(last + 1, count_elements(shape));
}

// The shapes of the operands and of the result have channels last.
ops::PixelWindows make_pixel_windows(const Shape& x, const Shape& w, const Shape& y, const Routine& r) {
  ops::PixelWindows out{.axes = {}, .images = x[0].extent, .channels = w.back().extent};
  out.image_stride = x[0].stride;
  out.axis_strides.fill(x[1].stride * x[1].extent);
  const std::size_t first = 5 - x.size();  // a convolution has one to three window axes
  for (std::size_t axis = 1; axis + 1 < x.size(); ++axis) {
    out.axes[first + axis - 1] = {x[axis].extent, y[axis].extent, w[axis].extent, r.stride, r.dilation, r.padding};
    out.axis_strides[first + axis - 1] = x[axis].stride;
  }
  out.tap_stride = w[w.size() - 2].stride;
  return out;
}

// Returns the product with an f32 result.
ops::MatmulProblem make_product(const Shape& x, const Shape& w, const Shape& y, const Routine& r, DType dtype) {
  ops::MatmulProblem out;
  out.pixel_windows = make_pixel_windows(x, w, y, r);
  const ops::PixelWindows& windows = *out.pixel_windows;
  std::int64_t pixels = windows.images;
  for (const ops::WindowAxis& axis : windows.axes) pixels *= axis.out;
  out.batch = x.back().extent / windows.channels;
  out.size = {pixels, w[0].extent / out.batch, windows.count_taps() * windows.channels};
  out.a = {dtype, x[x.size() - 2].stride, 1, out.batch > 1 ? windows.channels : 0};
  out.b = {dtype, 1, w[0].stride, out.batch > 1 ? out.size.n * w[0].stride : 0};
  out.d = {DType::f32, y[y.size() - 2].stride, 1, out.batch > 1 ? out.size.n : 0};
  return out;
}

// Makes the input itself the operand if each window is one pixel and these have one stride.
void simplify_single_pixels(ops::MatmulProblem& p) {
  const ops::PixelWindows& w = *p.pixel_windows;
  const auto is_single = [](const ops::WindowAxis& axis) {
    return axis.kernel == 1 && axis.padding == 0 && axis.in == axis.out;
  };
  if (!std::all_of(w.axes.begin(), w.axes.end(), is_single)) return;
  std::int64_t stride = w.axis_strides[2];
  for (int i = 2; i >= 0; --i) {
    if (w.axes[i].in > 1 && w.axis_strides[i] != stride) return;
    stride *= w.axes[i].in;
  }
  if (w.images > 1 && w.image_stride != stride) return;
  p.a.row_stride = w.axis_strides[2];
  p.pixel_windows.reset();
}

// Returns a tensor's axes with the outermost in memory first, to describe an order.
std::string format_memory_order(const View& view) {
  Shape shape = view.shape;
  std::stable_sort(shape.begin(), shape.end(),
                   [](const SizedAxis& a, const SizedAxis& b) { return a.stride > b.stride; });
  return format_shape(shape);
}

// Returns a copy between two orders of a tensor with channels last, or nullopt if its windows have more than two
// strides.
std::optional<ops::ImageCopy> make_image_copy(const View& from, const View& to) {
  const std::size_t last = from.shape.size() - 1;
  ops::ImageCopy out{.dtype = from.dtype, .images = from.shape[0].extent, .channels = from.shape[last].extent};
  out.to_channels = out.channels;
  std::vector<std::array<std::int64_t, 3>> lines;  // extent and strides in both, the innermost first
  for (std::size_t i = last - 1; i > 0; --i) {
    const SizedAxis &a = from.shape[i], &b = to.shape[i];
    if (a.extent == 1) continue;
    if (!lines.empty() && a.stride == lines.back()[0] * lines.back()[1] &&
        b.stride == lines.back()[0] * lines.back()[2])
      lines.back()[0] *= a.extent;
    else
      lines.push_back({a.extent, a.stride, b.stride});
  }
  if (lines.size() > 2) return std::nullopt;
  lines.resize(2, {1, 0, 0});
  out.pixels = out.to_pixels = lines[0][0];
  out.lines = lines[1][0];
  out.from = {from.shape[0].stride, lines[1][1], lines[0][1], from.shape[last].stride};
  out.to = {to.shape[0].stride, lines[1][2], lines[0][2], to.shape[last].stride};
  return out.is_addressable() ? std::optional(out) : std::nullopt;
}

// Returns a step that copies a tensor of a convolution to another order; the views have channels last.
PlanStep make_reordering_step(const Lowering& to, int group, int tensor, const View& from, const View& copy) {
  std::string description =
      fmt::format("{}{} to {} order", to.tensor_name(tensor), format_memory_order(from), format_memory_order(copy));
  const auto images = make_image_copy(from, copy);
  if (!images) return make_copy_step(group, from, copy, std::move(description));
  return {group, *images, {from.buffer, copy.buffer}, std::move(description)};
}

// Returns an operand of a convolution with channels last; a step copies it unless its memory has that order.
View copy_to_channels_last(Lowering& to, int group, int tensor, const Routine& conv) {
  View view = to.view_of(tensor);
  view.shape = with_usual_unit_strides(channels_last(view.shape, conv));
  if (has_channels_last(view.shape) && has_mergeable_taps(view.shape)) return view;
  const Shape shape = with_aligned_pixels(view.shape);
  const View copy{to.add_buffer(view.dtype, count_memory_elements(shape)), view.dtype, shape};
  to.plan.steps.push_back(make_reordering_step(to, group, tensor, view, copy));
  return copy;
}

// Returns the channels, with zeros added, in which the input of a convolution with few channels is copied so that the
// pixels of a row of a window are contiguous: 7 pixels of 4 channels instead of 7 elements of the kernel of 3 channels
// each, which fill a box of 64 channels to a twentieth. Returns nullopt for other convolutions. Outputs must be a
// multiple of 16 bytes apart.
std::optional<std::int64_t> row_window_channels(const Shape& x, const Shape& w, const Routine& r) {
  const std::int64_t channels = w.back().extent, taps = w[w.size() - 2].extent;
  constexpr std::int64_t max_pixels = 1 << 20;  // the copy addresses so many pixels of an image
  if (channels >= pixel_unit || channels != x.back().extent || r.dilation > 1 || taps == 1 ||
      count_elements(x) > max_pixels * x[0].extent * x.back().extent)
    return std::nullopt;
  for (const std::int64_t padded : {pixel_unit / 2, pixel_unit})
    if (channels <= padded && r.stride * padded % pixel_unit == 0) return padded;
  return std::nullopt;
}

// Returns the copy of an operand whose last window axis has the channels `padded` to contiguous pixels.
ops::ImageCopy make_row_copy(const View& from, std::int64_t padded, std::int64_t to_pixels, std::int64_t line_stride) {
  const Shape& shape = from.shape;
  const std::size_t pixel = shape.size() - 2;
  ops::ImageCopy out{.dtype = from.dtype, .images = shape[0].extent, .channels = shape.back().extent};
  out.pixels = shape[pixel].extent;
  out.to_pixels = to_pixels;
  out.to_channels = padded;
  for (std::size_t i = 1; i < pixel; ++i) out.lines *= shape[i].extent;
  out.from = {shape[0].stride, pixel > 1 ? shape[pixel - 1].stride : 0, shape[pixel].stride, shape.back().stride};
  out.to = {out.lines * line_stride, line_stride, padded, 1};
  return out;
}

struct ConvolutionOperands {
  ops::MatmulProblem product;
  int x = -1, w = -1;  // buffers
};

// Copies the operands of a convolution with few channels. Rows of a window become channels of an image whose pixels are
// those that outputs start at.
ConvolutionOperands lower_row_windows(Lowering& to, int group, const Expression& conv, std::int64_t padded) {
  const Routine& r = *conv.routine;
  const std::vector<int> in = expression_operands(conv);
  View x = to.view_of(in[0]), w = to.view_of(in[1]);
  x.shape = channels_last(x.shape, r);
  w.shape = channels_last(w.shape, r);
  Shape y = with_usual_unit_strides(channels_last(to.shape_of(conv.result), r));
  const std::size_t pixel = x.shape.size() - 2;
  const std::int64_t outputs = y[pixel].extent, taps = w.shape[pixel].extent,
                     reach = std::max(x.shape[pixel].extent + 2 * r.padding, (outputs - 1) * r.stride + taps),
                     pixels = round_up(reach, pixel_unit / padded), tap_stride = round_up(taps * padded, pixel_unit);
  ops::ImageCopy images = make_row_copy(x, padded, pixels, pixels * padded);
  images.first_pixel = r.padding;
  const ops::ImageCopy weights = make_row_copy(w, padded, taps, tap_stride);
  ConvolutionOperands out;
  out.x = to.add_buffer(x.dtype, images.images * images.to[0]);
  out.w = to.add_buffer(w.dtype, weights.images * weights.to[0]);
  const auto add_copy = [&](int tensor, const View& from, const ops::ImageCopy& copy, int buffer) {
    to.plan.steps.push_back(
        {group,
         copy,
         {from.buffer, buffer},
         fmt::format("{}{} to {} channels last", to.tensor_name(tensor), format_shape(to.shape_of(tensor)), padded)});
  };
  add_copy(in[0], x, images, out.x);
  add_copy(in[1], w, weights, out.w);
  // The windows of the copies: their last axis has the outputs as pixels.
  Shape rows = x.shape, kernel = w.shape;
  rows.back() = kernel.back() = {x.shape.back().dim, taps * padded, 1};
  rows[pixel] = {x.shape[pixel].dim, outputs, r.stride * padded};
  kernel[pixel] = {w.shape[pixel].dim, 1, tap_stride};
  std::int64_t stride = pixels * padded, kernel_stride = tap_stride;
  for (std::size_t i = pixel; i-- > 0;) {
    rows[i].stride = stride;
    kernel[i].stride = kernel_stride;
    stride *= rows[i].extent;
    kernel_stride *= kernel[i].extent;
  }
  out.product = make_product(rows, kernel, y, r, x.dtype);
  out.product.pixel_windows->axes[2] = {outputs, outputs};
  return out;
}

ConvolutionOperands lower_operands(Lowering& to, int group, const Expression& conv) {
  const Routine& r = *conv.routine;
  const std::vector<int> in = expression_operands(conv);
  const Shape given = channels_last(to.shape_of(in[0]), r);
  const auto padded = row_window_channels(given, channels_last(to.shape_of(in[1]), r), r);
  if (padded && !has_channels_last(given)) return lower_row_windows(to, group, conv, *padded);
  const View x = copy_to_channels_last(to, group, in[0], r), w = copy_to_channels_last(to, group, in[1], r);
  const Shape y = with_usual_unit_strides(channels_last(to.shape_of(conv.result), r));
  ConvolutionOperands out{make_product(x.shape, w.shape, y, r, x.dtype), x.buffer, w.buffer};
  simplify_single_pixels(out.product);
  return out;
}

// Returns the view with its axes in the order of memory with the given axis last.
View with_axis_last(View view, std::size_t axis) {
  std::rotate(view.shape.begin() + static_cast<std::ptrdiff_t>(axis),
              view.shape.begin() + static_cast<std::ptrdiff_t>(axis) + 1, view.shape.end());
  return view;
}

// True if a pointwise statement's operands and result are to have one memory order.
bool is_pointwise(const Statement& statement) {
  if (const auto* contraction = std::get_if<Contraction>(&statement.op))
    return contraction->contracted.empty() && contraction->literal_contracted == 1;
  const auto& nodes = std::get<Expression>(statement.op).nodes;
  return std::none_of(nodes.begin(), nodes.end(), [](const Node& node) {
    return node.kind == Node::Kind::along_dims || node.kind == Node::Kind::routine;
  });
}

bool has_pool(const Statement& statement) {
  const Routine* const routine = routine_of(statement);
  return routine != nullptr && is_pool(routine->kind);
}

bool is_transposed_convolution(const Statement& statement) {
  const Routine* const routine = routine_of(statement);
  return routine != nullptr && routine->kind == RoutineKind::conv_transpose;
}

// True if a tensor may have another order in memory: an input, which is copied, or the result of a kernel that stores
// to any strides.
bool can_be_ordered(const Program& program, int tensor) {
  for (const Statement& statement : program.statements)
    if (statement.result() == tensor)
      return is_pointwise(statement) || has_pool(statement) || is_transposed_convolution(statement) ||
             convolution_of(statement) != nullptr;
  return true;
}

// Returns for each tensor the axis of the channels that are to be last in its memory, or 0. Pointwise statements and
// pools take the order of one of their tensors.
std::vector<std::size_t> find_channel_axes(const Program& program, const std::vector<Shape>& shapes, Target target) {
  std::vector<std::size_t> out(program.tensors.size());
  if (target != Target::cuda) return out;
  for (const Statement& statement : program.statements)
    if (const Expression* const conv = convolution_of(statement))
      if (!device_convolution_blocker(program, shapes, *conv)) {
        const std::vector<int> in = expression_operands(*conv);
        const auto shape_of = [&](int t) { return channels_last(shapes[t], *conv->routine); };
        const bool copies_rows = program.tensors[in[0]].role == TensorRole::input &&
                                 row_window_channels(shape_of(in[0]), shape_of(in[1]), *conv->routine);
        const std::size_t channels = conv_axes(*conv->routine, shapes[conv->result].size()).channels;
        if (!copies_rows && can_be_ordered(program, in[0])) out[in[0]] = channels;
        out[conv->result] = channels;
      }
  for (bool has_changed = true; has_changed;) {
    has_changed = false;
    for (const Statement& statement : program.statements) {
      if (!is_pointwise(statement) && !has_pool(statement)) continue;
      std::vector<int> tensors = statement_operands(statement);
      tensors.push_back(statement.result());
      const auto found = std::find_if(tensors.begin(), tensors.end(), [&](int t) { return out[t] > 0; });
      if (found == tensors.end()) continue;
      for (const int t : tensors)
        if (out[t] == 0 && (has_pool(statement) || program.tensors[t].axes == program.tensors[*found].axes) &&
            can_be_ordered(program, t)) {
          out[t] = out[*found];
          has_changed = true;
        }
    }
  }
  return out;
}

// Returns the shape with the strides of memory that has an axis last.
Shape order_axis_last(Shape shape, std::size_t channel_axis) {
  const auto channels = shape.begin() + static_cast<std::ptrdiff_t>(channel_axis);
  std::rotate(channels, channels + 1, shape.end());
  shape = with_aligned_pixels(std::move(shape));
  std::rotate(shape.begin() + static_cast<std::ptrdiff_t>(channel_axis), shape.end() - 1, shape.end());
  return shape;
}

}  // namespace

Reason device_convolution_blocker(const Program& program, const std::vector<Shape>& shapes, const Expression& conv) {
  const std::vector<int> in = expression_operands(conv);
  const DType x = program.tensors[in[0]].dtype, w = program.tensors[in[1]].dtype;
  if (x != w || !SixteenBitFloats::contains(x))
    return fmt::format("{} multiplies {} by {}: tensor cores take two bf16 or two f16",
                       program.tensors[conv.result].name, dtype_name(x), dtype_name(w));
  const auto shape_of = [&](int t) { return with_aligned_pixels(channels_last(shapes[t], *conv.routine)); };
  return validate_pixel_windows(
      make_product(shape_of(in[0]), shape_of(in[1]), shape_of(conv.result), *conv.routine, x));
}

std::vector<std::size_t> order_channels_last(const Program& program, std::vector<Shape>& shapes, Target target) {
  std::vector<std::size_t> out = find_channel_axes(program, shapes, target);
  for (std::size_t t = 0; t < shapes.size(); ++t) {
    if (out[t] == 0) continue;
    Shape ordered = order_axis_last(shapes[t], out[t]);
    const bool is_changed =
        !std::equal(ordered.begin(), ordered.end(), shapes[t].begin(),
                    [](const SizedAxis& a, const SizedAxis& b) { return a.extent == 1 || a.stride == b.stride; });
    if (!is_changed) out[t] = 0;
    shapes[t] = std::move(ordered);
  }
  return out;
}

void add_channels_last_buffer(Lowering& to, int tensor, bool is_visible) {
  View& view = to.tensors[tensor];
  if (!is_visible) {
    PlanBuffer& buffer = to.plan.buffers[view.buffer];
    buffer.elements = count_memory_elements(view.shape);
    for (const SizedAxis& axis : view.shape) buffer.axes.push_back({axis.extent, axis.stride});
    return;
  }
  to.row_major_views[tensor] = {view.buffer, view.dtype, make_shape(to.program.tensors[tensor], to.dims).value()};
  view.buffer = to.add_buffer(view.dtype, count_memory_elements(view.shape));
}

void copy_inputs_to_channels_last(Lowering& to, int group) {
  for (const int s : to.plan.fusion.groups[group].statements)
    for (const int t : statement_operands(to.statement_at(s))) {
      const auto found = to.row_major_views.find(t);
      if (found == to.row_major_views.end() || to.program.tensors[t].role != TensorRole::input) continue;
      to.plan.steps.push_back(make_reordering_step(to, group, t, with_axis_last(found->second, to.channel_axes[t]),
                                                   with_axis_last(to.view_of(t), to.channel_axes[t])));
      to.row_major_views.erase(found);
    }
}

void copy_results_from_channels_last(Lowering& to, int group) {
  for (const int t : to.plan.fusion.groups[group].results) {
    const auto found = to.row_major_views.find(t);
    if (found == to.row_major_views.end()) continue;
    to.plan.steps.push_back(make_reordering_step(to, group, t, with_axis_last(to.view_of(t), to.channel_axes[t]),
                                                 with_axis_last(found->second, to.channel_axes[t])));
  }
}

ProductDims channels_last_dims(const Shape& result, const Routine& conv) {
  ProductDims out;
  const Shape y = channels_last(result, conv);
  for (const SizedAxis& axis : y)
    if (!axis.dim.empty()) (&axis == &y.back() ? out.n : out.m).push_back(axis.dim);
  return out;
}

void lower_device_convolution(Lowering& to, int group, const Expression& conv) {
  auto [product, x, w] = lower_operands(to, group, conv);
  if (to.plan.fusion.groups[group].statements.size() == 1) {
    product.d.dtype = to.dtype_of(conv.result);
    to.plan.steps.push_back({group, product, {x, w, to.view_of(conv.result).buffer}, ""});
    return;
  }
  const ProductDims dims = channels_last_dims(to.shape_of(conv.result), *conv.routine);
  add_fused_product(to, group, {product, {}, {}}, {x, w, -1}, {dims, {conv.result}});
}

}  // namespace ridge
