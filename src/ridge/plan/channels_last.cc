// Convolutions on a device: products of the windows of their input [N*P*Q, R*S*C] and their weights [R*S*C, K]. The
// copy engine loads windows only from memory with contiguous channels. Tensors that convolutions read or write, and
// those of the pointwise statements between them, therefore have channels last in memory, [N, H, W, C]; inputs and
// outputs of the program, which are row-major, are copied.
#include <fmt/format.h>

#include <algorithm>

#include "ridge/base/contains.h"
#include "ridge/base/dtype_set.h"
#include "ridge/base/operand_type.h"
#include "ridge/plan/lower.h"
#include "ridge/program/routine.h"

namespace ridge {
namespace {

constexpr std::size_t channel_axis = 1;
constexpr std::int64_t pixel_unit = 8;  // the engine's strides are multiples of 16 bytes, 8 elements

std::int64_t round_up(std::int64_t x, std::int64_t to) { return (x + to - 1) / to * to; }

const Expression* find_convolution(const Program& program, int statement) {
  const Routine* const routine = routine_of(program.statements[statement]);
  return routine != nullptr && routine->kind == RoutineKind::conv
             ? &std::get<Expression>(program.statements[statement].op)
             : nullptr;
}

// Returns the axes in the order of memory with channels last: batch, windows, channels.
Shape in_memory_order(const Shape& shape) {
  Shape out = shape;
  std::rotate(out.begin() + channel_axis, out.begin() + channel_axis + 1, out.end());
  return out;
}

// Returns the shape with channels last in memory; adjacent pixels are a multiple of `unit` elements apart.
Shape with_channels_last(const Shape& shape, std::int64_t unit) {
  Shape out = shape;
  std::int64_t stride = round_up(shape[channel_axis].extent, unit);
  for (std::size_t i = shape.size(); i-- > 0;) {
    if (i == channel_axis) continue;
    out[i].stride = stride;
    stride *= shape[i].extent;
  }
  out[channel_axis].stride = 1;
  return out;
}

// True if the channels are contiguous and the copy engine can address all other strides.
bool has_channels_last(const Shape& shape) {
  return std::all_of(shape.begin(), shape.end(), [&](const SizedAxis& axis) {
    const bool is_channel = &axis == &shape[channel_axis];
    return axis.extent == 1 || (is_channel ? axis.stride == 1 : axis.stride % pixel_unit == 0);
  });
}
// True if also all elements of the kernel have one stride, as weights need it.
bool has_mergeable_taps(const Shape& weights) {
  for (std::size_t i = conv_leading_axes; i + 1 < weights.size(); ++i)
    if (weights[i].extent > 1 && weights[i].stride != weights[i + 1].stride * weights[i + 1].extent) return false;
  return true;
}

// Replaces the strides of axes of one element, which address nothing, by those that memory with channels last has.
Shape with_usual_unit_strides(const Shape& shape) {
  Shape out = shape;
  const Shape usual = with_channels_last(shape, pixel_unit);
  for (std::size_t i = 0; i < out.size(); ++i)
    if (out[i].extent == 1) out[i].stride = usual[i].stride;
  return out;
}

// Returns the number of elements of memory that a shape with positive strides covers.
std::int64_t count_memory_elements(const Shape& shape) {
  std::int64_t last = 0;
  for (const SizedAxis& axis : shape) last += (axis.extent - 1) * axis.stride;
  return std::max(last + 1, count_elements(shape));
}

ops::PixelWindows make_pixel_windows(const Shape& x, const Shape& w, const Shape& y, const Routine& r) {
  ops::PixelWindows out{.axes = {}, .images = x[0].extent, .channels = w[channel_axis].extent};
  out.image_stride = x[0].stride;
  const std::size_t dimensions = x.size() - conv_leading_axes;
  out.axis_strides.fill(x[conv_leading_axes].stride * x[conv_leading_axes].extent);
  for (std::size_t d = 0; d < dimensions; ++d) {
    const std::size_t axis = conv_leading_axes + d, to = 3 - dimensions + d;
    out.axes[to] = {x[axis].extent, y[axis].extent, w[axis].extent, r.stride, r.dilation, r.padding};
    out.axis_strides[to] = x[axis].stride;
  }
  out.tap_stride = w.back().stride;
  return out;
}

// Returns the product of a convolution whose operands have channels last, with the result's dtype f32.
ops::MatmulProblem make_product(const Shape& x, const Shape& w, const Shape& y, const Routine& r, DType dtype) {
  ops::MatmulProblem out;
  out.pixel_windows = make_pixel_windows(x, w, y, r);
  const ops::PixelWindows& windows = *out.pixel_windows;
  std::int64_t pixels = windows.images;
  for (const ops::WindowAxis& axis : windows.axes) pixels *= axis.out;
  out.batch = x[channel_axis].extent / windows.channels;
  out.size = {pixels, w[0].extent / out.batch, windows.count_taps() * windows.channels};
  out.a = {dtype, x.back().stride, 1, out.batch > 1 ? windows.channels : 0};
  out.b = {dtype, 1, w[0].stride, out.batch > 1 ? out.size.n * w[0].stride : 0};
  out.d = {DType::f32, y.back().stride, 1, out.batch > 1 ? out.size.n : 0};
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

// Returns the view with an own name for each axis: the kernel of a convolution may have the same literal size twice.
View with_numbered_axes(View view) {
  for (std::size_t i = 0; i < view.shape.size(); ++i) view.shape[i].dim = fmt::format("axis {}", i);
  return view;
}

// Returns a step that copies a tensor to another memory order.
PlanStep make_reordering_step(const Lowering& to, int group, int tensor, const View& from, const View& copy) {
  const auto memory_order = [](const View& view) {
    return format_shape(view.shape.back().stride == 1 ? view.shape : in_memory_order(view.shape));
  };
  return make_copy_step(
      group, with_numbered_axes(from), with_numbered_axes(copy),
      fmt::format("{}{} to {} order", to.tensor_name(tensor), memory_order(from), memory_order(copy)));
}

// Returns a view of the tensor with channels last; a step copies it unless its memory has that order.
View copy_to_channels_last(Lowering& to, int group, int tensor) {
  View view = to.view_of(tensor);
  view.shape = with_usual_unit_strides(view.shape);
  if (has_channels_last(view.shape) && has_mergeable_taps(view.shape)) return view;
  const Shape shape = with_channels_last(view.shape, pixel_unit);
  const View copy{to.add_buffer(view.dtype, count_memory_elements(shape)), view.dtype, shape};
  to.plan.steps.push_back(make_reordering_step(to, group, tensor, view, copy));
  return copy;
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

}  // namespace

Reason device_convolution_blocker(const Program& program, const std::vector<Shape>& shapes, const Expression& conv) {
  const std::vector<int> in = expression_operands(conv);
  const DType x = program.tensors[in[0]].dtype, w = program.tensors[in[1]].dtype;
  if (x != w || !OperandDTypes::contains(x))
    return fmt::format("{} multiplies {} by {}: tensor cores take two bf16 or two f16",
                       program.tensors[conv.result].name, dtype_name(x), dtype_name(w));
  const ops::MatmulProblem product =
      make_product(with_channels_last(shapes[in[0]], pixel_unit), with_channels_last(shapes[in[1]], pixel_unit),
                   with_channels_last(shapes[conv.result], pixel_unit), *conv.routine, x);
  return validate_pixel_windows(product);
}

std::vector<bool> find_channels_last_tensors(const Program& program, const std::vector<Shape>& shapes, Target target) {
  std::vector<bool> out(program.tensors.size());
  if (target != Target::cuda) return out;
  const auto count_statements = static_cast<int>(program.statements.size());
  for (int s = 0; s < count_statements; ++s)
    if (const Expression* const conv = find_convolution(program, s))
      if (!device_convolution_blocker(program, shapes, *conv))
        out[expression_operands(*conv)[0]] = out[conv->result] = true;
  for (bool has_changed = true; has_changed;) {
    has_changed = false;
    for (const Statement& statement : program.statements) {
      if (!is_pointwise(statement)) continue;
      std::vector<int> tensors = statement_operands(statement);
      tensors.push_back(statement.result());
      const auto found = std::find_if(tensors.begin(), tensors.end(), [&](int t) { return out[t]; });
      if (found == tensors.end()) continue;
      const std::vector<Axis>& axes = program.tensors[*found].axes;
      for (const int t : tensors)
        if (!out[t] && program.tensors[t].axes == axes) out[t] = has_changed = true;
    }
  }
  return out;
}

Shape channels_last_shape(const Shape& shape) { return with_channels_last(shape, pixel_unit); }

void add_channels_last_buffer(Lowering& to, int tensor, bool is_visible) {
  View& view = to.tensors[tensor];
  if (!is_visible) {
    to.plan.buffers[view.buffer].elements = count_memory_elements(view.shape);
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
      to.plan.steps.push_back(make_reordering_step(to, group, t, found->second, to.view_of(t)));
      to.row_major_views.erase(found);
    }
}

void copy_results_from_channels_last(Lowering& to, int group) {
  for (const int t : to.plan.fusion.groups[group].results) {
    const auto found = to.row_major_views.find(t);
    if (found == to.row_major_views.end()) continue;
    to.plan.steps.push_back(make_reordering_step(to, group, t, to.view_of(t), found->second));
  }
}

ProductDims channels_last_dims(const Shape& result) {
  ProductDims out;
  for (std::size_t i = 0; i < result.size(); ++i)
    if (!result[i].dim.empty()) (i == channel_axis ? out.n : out.m).push_back(result[i].dim);
  return out;
}

void lower_device_convolution(Lowering& to, int group, const Expression& conv) {
  const FusionGroup g = to.plan.fusion.groups[group];
  const std::vector<int> in = expression_operands(conv);
  const View x = copy_to_channels_last(to, group, in[0]), w = copy_to_channels_last(to, group, in[1]);
  const Shape& y = to.shape_of(conv.result);
  ops::MatmulProblem product = make_product(x.shape, w.shape, y, *conv.routine, x.dtype);
  simplify_single_pixels(product);
  if (g.statements.size() == 1) {
    product.d.dtype = to.dtype_of(conv.result);
    to.plan.steps.push_back({group, product, {x.buffer, w.buffer, to.view_of(conv.result).buffer}, ""});
    return;
  }
  const ProductDims dims = channels_last_dims(y);
  const std::vector<int> sums{conv.result};
  LoweredChain chain = lower_epilogue(to, g, {dims, product, sums});
  std::vector<int> buffers{x.buffer, w.buffer, -1};
  buffers.insert(buffers.end(), chain.buffers.begin() + 1, chain.buffers.end());
  to.plan.steps.push_back({group, ops::FusedMatmul{product, {}, std::move(chain.program)}, std::move(buffers), ""});
}

}  // namespace ridge
