// Lowers a convolution to a product of its weights [K, C*R*S] and the windows of its input [C*R*S, P*Q] for each image,
// with the pointwise statements that follow it as the product's epilogue.
#include <fmt/format.h>

#include <algorithm>

#include "ridge/base/dtype_set.h"
#include "ridge/plan/lower.h"
#include "ridge/program/routine.h"

namespace ridge {
namespace {

const Expression* find_convolution(const Lowering& to, const FusionGroup& group) {
  for (const int s : group.statements)
    if (const Expression* const conv = convolution_of(to.statement_at(s))) return conv;
  return nullptr;
}

constexpr std::size_t first_window = 2;  // first window dimension of shapes with channels in second place

std::int64_t count_groups(const Shape& x, const Shape& w) { return w[1].extent == 0 ? 1 : x[1].extent / w[1].extent; }

ops::ConvolutionWindows make_windows(const Shape& x, const Shape& w, const Shape& y, const Routine& r) {
  ops::ConvolutionWindows out{.axes = {}, .groups = count_groups(x, w)};
  const std::size_t dimensions = x.size() - first_window;
  for (std::size_t d = 0; d < dimensions; ++d) {
    const std::size_t axis = first_window + d;
    out.axes[3 - dimensions + d] = {x[axis].extent, y[axis].extent, w[axis].extent, r.stride, r.dilation, r.padding};
  }
  return out;
}

// True if the windows are the elements of the input, so that the input is the product's operand as it is.
bool are_single_elements(const ops::ConvolutionWindows& windows) {
  return windows.groups == 1 && std::all_of(windows.axes.begin(), windows.axes.end(), [](const ops::WindowAxis& axis) {
           return axis.kernel == 1 && axis.padding == 0 && axis.in == axis.out;
         });
}

ops::MatmulProblem make_convolution_product(const Shape& x, const Shape& w, const Shape& y, const Routine& r,
                                            DType dtype) {
  const ops::ConvolutionWindows windows = make_windows(x, w, y, r);
  std::int64_t inputs = 1, outputs = 1, kernel = 1;
  for (const ops::WindowAxis& axis : windows.axes) {
    inputs *= axis.in;
    outputs *= axis.out;
    kernel *= axis.kernel;
  }
  const std::int64_t channels = w[1].extent, m = w[0].extent / windows.groups, k = channels * kernel;
  ops::MatmulProblem out{.batch = x[0].extent * windows.groups, .size = {m, outputs, k}, .a = {}, .b = {}, .d = {}};
  out.a = {dtype, k, 1, windows.groups > 1 ? m * k : 0};
  out.b = {dtype, inputs, 1, channels * inputs};
  if (!are_single_elements(windows)) out.windows = windows;
  return out;
}

}  // namespace

const Expression* convolution_of(const Statement& statement) {
  const Routine* const routine = routine_of(statement);
  return routine != nullptr && routine->kind == RoutineKind::conv ? &std::get<Expression>(statement.op) : nullptr;
}

Shape channels_first(Shape shape, const Routine& conv) {
  if (conv.channels_last) std::rotate(shape.begin() + 1, shape.end() - 1, shape.end());
  return shape;
}

ops::ConvLoops make_direct_convolution(const Shape& x, const Shape& w, const Shape& y, const Routine& r) {
  ops::ConvLoops out;
  out.batch = x[0].extent;
  out.channels = x[1].extent;
  out.out_channels = w[0].extent;
  out.groups = count_groups(x, w);
  out.stride = r.stride;
  out.padding = r.padding;
  out.dilation = r.dilation;
  for (std::size_t i = first_window; i < x.size(); ++i) out.windows.push_back({x[i].extent, y[i].extent, w[i].extent});
  return out;
}

Reason convolution_blocker(const Program& program, const std::vector<Shape>& shapes, const Expression& conv) {
  const std::vector<int> in = expression_operands(conv);
  const auto shape_of = [&](int tensor) { return channels_first(shapes[tensor], *conv.routine); };
  const Shape x = shape_of(in[0]), w = shape_of(in[1]), y = shape_of(conv.result);
  constexpr std::int64_t min_rows = 4;  // with fewer output channels per group, packing takes longer than multiplying
  constexpr double max_scratch_ratio = 16, min_scratch = 1 << 16;
  const std::int64_t groups = count_groups(x, w);
  const double group_elements = static_cast<double>(count_elements(x) + count_elements(y)) /
                                static_cast<double>(groups * std::max<std::int64_t>(x[0].extent, 1));
  const double scratch = ops::direct_convolution_scratch(make_direct_convolution(x, w, y, *conv.routine));
  if (groups > 1 && w[0].extent / groups < min_rows && scratch <= max_scratch_ratio * group_elements + min_scratch)
    return fmt::format("{} has {} output channels per group, too few for a product", program.tensors[conv.result].name,
                       w[0].extent / groups);
  return {};
}

ProductDims convolution_dims(const Shape& result, const Routine& conv) {
  ProductDims out;
  const Shape y = channels_first(result, conv);
  for (std::size_t i = 0; i < y.size(); ++i)
    if (!y[i].dim.empty()) {
      auto& rest = i == 1 ? out.m : out.n;
      (i == 0 ? out.batch : rest).push_back(y[i].dim);
    }
  return out;
}

static Shape dense_shape(Shape shape) {
  std::int64_t stride = 1;
  for (auto axis = shape.rbegin(); axis != shape.rend(); ++axis) {
    axis->stride = stride;
    stride *= axis->extent;
  }
  return shape;
}

bool is_dense(const Shape& shape) {
  const Shape dense = dense_shape(shape);
  return std::equal(shape.begin(), shape.end(), dense.begin(),
                    [](const SizedAxis& a, const SizedAxis& b) { return a.extent == 1 || a.stride == b.stride; });
}

int convert_tensor(Lowering& to, int group, int tensor, DType dtype) {
  View view = to.view_of(tensor);
  if (view.dtype == dtype) return view.buffer;
  const std::int64_t count = count_elements(view.shape);
  view.shape = {{"element", count, 1}};
  const View copy{to.add_buffer(dtype, count), dtype, view.shape};
  add_copy(to, group, view, copy, fmt::format("{} to {}", to.tensor_name(tensor), dtype_name(dtype)));
  return copy.buffer;
}

int convert_conv_operand(Lowering& to, int group, int tensor, const Routine& conv, DType dtype) {
  View view = to.view_of(tensor);
  view.shape = channels_first(view.shape, conv);
  if (is_dense(view.shape)) return convert_tensor(to, group, tensor, dtype);
  const View copy{to.add_buffer(dtype, count_elements(view.shape)), dtype, dense_shape(view.shape)};
  const std::string conversion = view.dtype == dtype ? "" : fmt::format("to {}, ", dtype_name(dtype));
  add_copy(to, group, view, copy, fmt::format("{} {}channels first", to.tensor_name(tensor), conversion));
  return copy.buffer;
}

int add_conv_result(Lowering& to, int tensor, const Routine& conv) {
  const View& view = to.view_of(tensor);
  return is_dense(channels_first(view.shape, conv)) ? view.buffer
                                                    : to.add_buffer(view.dtype, count_elements(view.shape));
}

void copy_conv_result(Lowering& to, int group, int tensor, const Routine& conv, int buffer) {
  View view = to.view_of(tensor);
  if (buffer == view.buffer) return;
  view.shape = channels_first(view.shape, conv);
  add_copy(to, group, {buffer, view.dtype, dense_shape(view.shape)}, view,
           fmt::format("{} channels last", to.tensor_name(tensor)));
}

bool lower_convolution(Lowering& to, int group) {
  const FusionGroup g = to.plan.fusion.groups[group];
  const Expression* const conv = find_convolution(to, g);
  if (conv == nullptr) return false;
  if (to.plan.fusion.target == Target::cuda) {
    lower_device_convolution(to, group, *conv);
    return true;
  }
  const std::vector<int> in = expression_operands(*conv);
  const DType x = to.dtype_of(in[0]), w = to.dtype_of(in[1]);
  const bool multiplies_as_stored = x == w && StoredFloats::contains(x);
  const DType dtype = multiplies_as_stored ? x : DType::f32;
  const Routine& routine = *conv->routine;
  const auto shape_of = [&](int tensor) { return channels_first(to.shape_of(tensor), routine); };
  ops::MatmulProblem product =
      make_convolution_product(shape_of(in[0]), shape_of(in[1]), shape_of(conv->result), routine, dtype);
  const int b = convert_conv_operand(to, group, in[0], routine, dtype),
            a = convert_conv_operand(to, group, in[1], routine, dtype);
  const bool fused = g.statements.size() > 1;
  product.d = {fused ? DType::f32 : to.dtype_of(conv->result), product.size.n, 1, product.size.m * product.size.n};
  if (!fused) {
    const int d = add_conv_result(to, conv->result, routine);
    to.plan.steps.push_back({group, product, {a, b, d}, ""});
    copy_conv_result(to, group, conv->result, routine, d);
    return true;
  }
  const ProductDims dims = convolution_dims(to.shape_of(conv->result), routine);
  add_fused_product(to, group, {product, {}, {}}, {a, b, -1}, {dims, {conv->result}});
  return true;
}

}  // namespace ridge
