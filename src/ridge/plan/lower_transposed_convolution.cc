// Lowers a transposed convolution to a product of its input and its weights, whose results (columns) a fold adds where
// windows overlap (decision 41). For y[N, K, P, Q] = conv_transpose(x[N, C, H, W], w[C, K, R, S]) the columns are
// [N, K*R*S, H*W] = w^T * x[n], or [N*H*W, R*S*K] if y has adjacent channels in memory.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "ridge/base/dtype_set.h"
#include "ridge/plan/lower.h"
#include "ridge/program/routine.h"

namespace ridge {
namespace {

// The axes of a tensor of a convolution by role. The `batch` of the weights is the axis of the input's channels.
struct ConvolutionShape {
  SizedAxis batch, channels;
  Shape windows;
  ConvolutionShape(const Shape& shape, const Routine& conv) : batch(shape[0]) {
    const ConvAxes axes = conv_axes(conv, shape.size());
    channels = shape[axes.channels];
    const auto first = shape.begin() + static_cast<std::ptrdiff_t>(axes.first_window);
    windows.assign(first, first + static_cast<std::ptrdiff_t>(shape.size() - 2));
  }
};

// Returns the axes as one: their extent and the distance of adjacent elements; nullopt if this is not constant.
std::optional<SizedAxis> merge_axes(const Shape& axes) {
  SizedAxis out{"", 1, 0};
  for (auto axis = axes.rbegin(); axis != axes.rend(); ++axis) {
    if (axis->extent == 1) continue;
    if (out.extent > 1 && axis->stride != out.stride * out.extent) return std::nullopt;
    if (out.extent == 1) out.stride = axis->stride;
    out.extent *= axis->extent;
  }
  return out;
}

Shape concat_axes(const SizedAxis& first, const Shape& rest) {
  Shape out{first};
  out.insert(out.end(), rest.begin(), rest.end());
  return out;
}
Shape concat_axes(Shape first, const SizedAxis& last) {
  first.push_back(last);
  return first;
}

// Returns the layout of a matrix. An axis of one element gets the stride that it has in a packed matrix.
ops::MatrixLayout make_layout(DType dtype, const SizedAxis& rows, const SizedAxis& columns, std::int64_t batch_stride) {
  ops::MatrixLayout out{dtype, rows.stride, columns.stride, batch_stride};
  if (columns.extent == 1) out.col_stride = 1;
  if (rows.extent == 1) out.row_stride = out.col_stride == 1 ? columns.extent : 1;
  return out;
}
bool has_adjacent_elements(const SizedAxis& a, const SizedAxis& b) {
  return a.extent == 1 || b.extent == 1 || a.stride == 1 || b.stride == 1;
}

class TransposedConvolution {
 public:
  TransposedConvolution(Lowering& to, int group, const Expression& e)
      : to_(to),
        group_(group),
        routine_(*e.routine),
        x_(to.view_of(expression_operands(e)[0])),
        w_(to.view_of(expression_operands(e)[1])),
        y_(to.view_of(e.result)),
        x_name_(to.tensor_name(expression_operands(e)[0])),
        w_name_(to.tensor_name(expression_operands(e)[1])) {
    const ConvolutionShape w = shape_of(w_), y = shape_of(y_);
    group_channels_ = w.channels.extent;
    groups_ = y.channels.extent / group_channels_;
    for (const SizedAxis& axis : w.windows) taps_ *= axis.extent;
    has_adjacent_channels_ = y.channels.extent > 1 && y.channels.stride == 1;
    dtype_ = x_.dtype == w_.dtype && StoredFloats::contains(x_.dtype) ? x_.dtype : DType::f32;
  }

  void lower() {
    prepare_weights();
    prepare_input();
    ops::FoldLoops fold{has_overlaps() ? DType::f32 : y_.dtype, y_.dtype, {}};
    const ops::MatmulProblem product = make_product(fold.columns);
    const int columns = to_.add_buffer(fold.columns, product.batch * product.size.m * product.size.n);
    std::vector<int> operands{w_.buffer, x_.buffer, columns};
    if (has_adjacent_channels_) std::swap(operands[0], operands[1]);
    to_.plan.steps.push_back({group_, product, operands, ""});
    fold.axes = make_fold_axes(product);
    to_.plan.steps.push_back({group_, std::move(fold), {columns, y_.buffer}, ""});
  }

 private:
  ConvolutionShape shape_of(const View& view) const { return {view.shape, routine_}; }

  // Replaces an operand by a copy with contiguous axes in this order; the channels and windows keep their roles.
  void copy_operand(View& operand, const Shape& order, const std::string& name) {
    Shape packed = order;
    std::int64_t elements = 1;
    for (auto axis = packed.rbegin(); axis != packed.rend(); ++axis) {
      axis->stride = elements;
      elements *= axis->extent;
    }
    const View copy{to_.add_buffer(dtype_, elements), dtype_, packed};
    const std::string conversion = operand.dtype == dtype_ ? "" : fmt::format(", to {}", dtype_name(dtype_));
    to_.plan.steps.push_back(make_copy_step(
        group_, {operand.buffer, operand.dtype, order}, copy,
        fmt::format("{}{} to {} order{}", name, format_shape(operand.shape), format_shape(packed), conversion)));
    for (SizedAxis& axis : operand.shape)
      axis.stride =
          std::find_if(packed.begin(), packed.end(), [&](const SizedAxis& p) { return p.dim == axis.dim; })->stride;
    operand.buffer = copy.buffer;
    operand.dtype = dtype_;
  }

  // Makes the taps and the channels of the result one axis of the weights.
  void prepare_weights() {
    const auto order = [&] {
      const ConvolutionShape w = shape_of(w_);
      return has_adjacent_channels_ ? concat_axes(w.windows, w.channels) : concat_axes(w.channels, w.windows);
    };
    const auto is_matrix = [&] {
      const auto merged = merge_axes(order());
      return merged && has_adjacent_elements(*merged, w_.shape[0]);
    };
    if (w_.dtype != dtype_ || !is_matrix()) copy_operand(w_, concat_axes(w_.shape[0], order()), w_name_);
    weight_columns_ = *merge_axes(order());
  }

  // Makes the positions of each image, or of all images, one axis of the input.
  void prepare_input() {
    if (x_.dtype != dtype_ || !merge_pixels()) {
      const ConvolutionShape x = shape_of(x_);
      const Shape pixels = concat_axes(x.batch, x.windows);
      Shape order = concat_axes(x.channels, pixels);
      if (can_split_images()) order = concat_axes(x.batch, concat_axes(x.channels, x.windows));
      if (has_adjacent_channels_) order = concat_axes(pixels, x.channels);
      copy_operand(x_, order, x_name_);
      merge_pixels();
    }
  }
  // True if the batch of the product may be the images. Small images would fill a part of the product's tiles.
  bool can_split_images() const {
    constexpr std::int64_t min_positions = 128;
    std::int64_t positions = 1;
    for (const SizedAxis& axis : shape_of(x_).windows) positions *= axis.extent;
    return groups_ == 1 && positions >= min_positions;
  }
  // Makes `pixels_` the positions of all images or else of each image. Returns false if the input must be copied first.
  bool merge_pixels() {
    const ConvolutionShape x = shape_of(x_);
    auto merged = merge_axes(concat_axes(x.batch, x.windows));
    has_all_images_ = merged.has_value();
    if (!merged && can_split_images()) merged = merge_axes(x.windows);
    if (!merged || !has_adjacent_elements(*merged, x.channels)) return false;
    pixels_ = *merged;
    return true;
  }

  bool has_overlaps() const {
    const Shape kernel = shape_of(w_).windows;
    return std::any_of(kernel.begin(), kernel.end(), [&](const SizedAxis& axis) {
      return axis.extent > routine_.stride / std::gcd(routine_.stride, routine_.dilation);
    });
  }

  // Returns the product. Its batch is the groups, each with all images, or the images.
  ops::MatmulProblem make_product(DType columns) const {
    const SizedAxis batch = x_.shape[0], all_channels = shape_of(x_).channels;
    const std::int64_t inputs = all_channels.extent / groups_;
    const SizedAxis channels{"", inputs, all_channels.stride}, weight_rows{"", inputs, w_.shape[0].stride};
    const std::int64_t x_batch = has_all_images_ ? inputs * all_channels.stride : batch.stride,
                       w_batch = has_all_images_ ? inputs * weight_rows.stride : 0;
    ops::MatmulProblem out;
    out.batch = has_all_images_ ? groups_ : batch.extent;
    const auto batch_stride = [&](std::int64_t stride) { return out.batch > 1 ? stride : 0; };
    if (has_adjacent_channels_) {
      out.size = {pixels_.extent, weight_columns_.extent, inputs};
      out.a = make_layout(dtype_, pixels_, channels, batch_stride(x_batch));
      out.b = make_layout(dtype_, weight_rows, weight_columns_, batch_stride(w_batch));
      const std::int64_t row = has_all_images_ ? groups_ * out.size.n : out.size.n;
      out.d = {columns, row, 1, batch_stride(has_all_images_ ? out.size.n : out.size.m * out.size.n)};
    } else {
      out.size = {weight_columns_.extent, pixels_.extent, inputs};
      out.a = make_layout(dtype_, weight_columns_, weight_rows, batch_stride(w_batch));
      out.b = make_layout(dtype_, channels, pixels_, batch_stride(x_batch));
      out.d = {columns, out.size.n, 1, batch_stride(out.size.m * out.size.n)};
    }
    return out;
  }

  // Returns the axes of y in the order of its memory, with their strides in the product's result.
  std::vector<ops::FoldAxis> make_fold_axes(const ops::MatmulProblem& product) const {
    const ConvolutionShape x = shape_of(x_), w = shape_of(w_), y = shape_of(y_);
    const std::int64_t row = product.d.row_stride;
    std::int64_t position = has_adjacent_channels_ ? row : 1, tap = has_adjacent_channels_ ? group_channels_ : row;
    const std::int64_t channel = has_adjacent_channels_ ? 1 : taps_ * row;
    std::vector<ops::FoldAxis> out;
    const auto add_axis = [&](std::int64_t extent, std::int64_t stride, std::int64_t y_stride) {
      out.push_back({.positions = extent, .out = extent, .position_stride = stride, .y_stride = y_stride});
    };
    for (std::size_t i = x.windows.size(); i-- > 0;) {
      out.push_back({.positions = x.windows[i].extent,
                     .out = y.windows[i].extent,
                     .taps = w.windows[i].extent,
                     .stride = routine_.stride,
                     .padding = routine_.padding,
                     .dilation = routine_.dilation,
                     .position_stride = position,
                     .tap_stride = tap,
                     .y_stride = y.windows[i].stride});
      position *= x.windows[i].extent;
      tap *= w.windows[i].extent;
    }
    add_axis(group_channels_, channel, y.channels.stride);
    if (groups_ > 1) add_axis(groups_, product.d.batch_stride, group_channels_ * y.channels.stride);
    add_axis(y.batch.extent, has_all_images_ ? position : product.d.batch_stride, y.batch.stride);
    std::reverse(out.begin(), out.end());
    std::stable_sort(out.begin(), out.end(),
                     [](const ops::FoldAxis& a, const ops::FoldAxis& b) { return a.y_stride > b.y_stride; });
    return out;
  }

  Lowering& to_;
  int group_;
  const Routine& routine_;
  View x_, w_, y_;
  const std::string &x_name_, &w_name_;
  std::int64_t groups_ = 1, taps_ = 1;
  std::int64_t group_channels_ = 1;     // Channels of the result in a group
  bool has_adjacent_channels_ = false;  // True if the channels of y are adjacent in memory
  bool has_all_images_ = false;         // True if one product has the positions of all images
  DType dtype_ = DType::f32;            // Dtype of the product's operands
  SizedAxis pixels_, weight_columns_;   // One axis of the input, and of the weights
};

}  // namespace

Status check_transposed_columns(const Program& program, const std::vector<Shape>& shapes) {
  for (const Statement& statement : program.statements) {
    const Routine* const routine = routine_of(statement);
    if (!routine || routine->kind != RoutineKind::conv_transpose) continue;
    const auto& e = std::get<Expression>(statement.op);
    const std::vector<int> in = expression_operands(e);
    const auto count = [&](int tensor) { return static_cast<double>(count_elements(shapes[tensor])); };
    const double channels = static_cast<double>(shapes[in[1]][0].extent),
                 groups =
                     static_cast<double>(shapes[e.result][conv_axes(*routine, shapes[in[0]].size()).channels].extent /
                                         shapes[in[1]][conv_axes(*routine, shapes[in[1]].size()).channels].extent);
    constexpr double max_columns = 0x1p60;
    if (count(in[0]) / channels * (count(in[1]) / channels) * groups > max_columns)
      return input_error(
          fmt::format("cannot run '{}': its products before they are added take more than 2^62 bytes", statement.text),
          "`ridge explain` counts it; to run, use smaller sizes");
  }
  return Done{};
}

void lower_transposed_convolution(Lowering& to, int group, const Expression& e) {
  TransposedConvolution(to, group, e).lower();
}

}  // namespace ridge
