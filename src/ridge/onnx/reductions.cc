// Functions along axes: softmax and norms, sums, sorting. FLOPs per element of the input as in the notation: 5 for
// softmax and layer norm, 3 for RMS norm, 1 for a sum; a weight or a bias adds 1.
#include <fmt/format.h>

#include <algorithm>

#include "ridge/onnx/operator.h"

namespace ridge::onnx {
namespace {

// Sets a result of the input's shape and `flops` per element, and 1 for each of the inputs from `first_factor` on.
Status define_rows(Operator& op, int flops, std::size_t first_factor, std::size_t max_factors) {
  RIDGE_TRY(x, op.input(0));
  for (std::size_t i = first_factor; i < first_factor + max_factors; ++i) flops += op.has_input(i) ? 1 : 0;
  op.flops = x->elements() * flops;
  return op.set_output(0, x->shape, x->type);
}

Status define_softmax(Operator& op) {
  RIDGE_TRY_STATUS(define_rows(op, 5, 1, 0));
  op.add_calls_of(Function::exp, op.inputs[0]->elements());
  return Done{};
}

Status define_layer_norm(Operator& op) {
  RIDGE_TRY(x, op.input(0));
  RIDGE_TRY_STATUS(define_rows(op, 5, 1, 2));
  if (x->shape.empty()) return Done{};
  RIDGE_TRY(axis, op.axis(op.integer("axis", -1), x->shape.size()));
  Shape rows(x->shape.begin(), x->shape.begin() + static_cast<std::ptrdiff_t>(axis));  // Means and inverse deviations
  rows.resize(x->shape.size(), 1);
  RIDGE_TRY_STATUS(op.set_output(1, rows, float_type));
  return op.set_output(2, rows, float_type);
}

Status define_rms_norm(Operator& op) { return define_rows(op, 3, 1, 1); }
Status define_plain_norm(Operator& op) { return define_rows(op, 5, 1, 2); }  // Instance and group norm

// com.microsoft's norm of a sum: x + skip (+ bias), which is a result, too.
template <int flops> Status define_skip_norm(Operator& op) {
  RIDGE_TRY_STATUS(define_rows(op, flops + 1, 2, 3));
  return op.set_output(3, op.inputs[0]->shape, op.inputs[0]->type);
}

// The statistics are constants: a difference, a product with weight * rsqrt(variance), a sum with the bias.
Status define_batch_norm(Operator& op) {
  RIDGE_TRY(x, op.input(0));
  RIDGE_TRY(scale, op.input(1));
  if (op.integer("training_mode", 0) != 0) {
    RIDGE_TRY_STATUS(op.set_output(1, scale->shape, scale->type));
    RIDGE_TRY_STATUS(op.set_output(2, scale->shape, scale->type));
    return define_rows(op, 7, 1, 0);
  }
  op.flops = x->elements() * 3;
  return op.set_output(0, x->shape, x->type);
}

// Squares, sums and scales `size` channels around each element.
Status define_local_norm(Operator& op) {
  RIDGE_TRY(x, op.input(0));
  const std::int64_t size = op.integer("size", 1);
  if (size < 1 || size > max_axis_size) return op.error(fmt::format("expected a size of at least 1, found {}", size));
  op.flops = multiply_counts(x->elements(), 2 * Count{size} + 3);
  op.add_calls_of(Function::pow, x->elements());
  return op.set_output(0, x->shape, x->type);
}

// Returns the shape without, or with 1 for, the reduced axes; all axes if none is given.
Result<Shape> reduce_shape(Operator& op, const Shape& shape, const std::optional<std::vector<std::int64_t>>& axes,
                           bool keeps_axes) {
  std::vector<bool> is_reduced(shape.size(), !axes || axes->empty());
  if (axes)
    for (const std::int64_t each : *axes) {
      RIDGE_TRY(axis, op.axis(each, shape.size()));
      is_reduced[axis] = true;
    }
  Shape out;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (!is_reduced[i]) out.push_back(shape[i]);
    if (is_reduced[i] && keeps_axes) out.push_back(1);
  }
  return out;
}

// A reduction with `flops` operations per element of the input.
Status define_reduction_of(Operator& op, int flops) {
  RIDGE_TRY(x, op.input(0));
  RIDGE_TRY(axes, op.integers_of("axes", 1));
  set_elements_read(op, 1, 0);
  const bool is_copy = (!axes || axes->empty()) && op.integer("noop_with_empty_axes", 0) != 0;
  if (is_copy) return op.set_output(0, x->shape, x->type);
  RIDGE_TRY(shape, reduce_shape(op, x->shape, axes, op.integer("keepdims", 1) != 0));
  op.flops = x->elements() * flops;
  return op.set_output(0, std::move(shape), x->type);
}
template <int flops> Status define_reduction(Operator& op) { return define_reduction_of(op, flops); }

// A maximum, a difference, a power and a sum.
Status define_log_sum_exp(Operator& op) {
  RIDGE_TRY_STATUS(define_reduction_of(op, 4));
  op.add_calls_of(Function::exp, op.inputs[0]->elements());
  return Done{};
}

Status define_arg(Operator& op) {
  RIDGE_TRY(x, op.input(0));
  RIDGE_TRY(shape, reduce_shape(op, x->shape, std::vector{op.integer("axis", 0)}, op.integer("keepdims", 1) != 0));
  op.flops = x->elements();
  return op.set_output(0, std::move(shape), int64_type);
}

Status define_cumulative_sum(Operator& op) { return define_rows(op, 1, 1, 0); }

Status define_top_k(Operator& op) {
  RIDGE_TRY(x, op.input(0));
  RIDGE_TRY(axis, op.axis(op.integer("axis", -1), x->shape.size()));
  std::int64_t k = op.integer("k", 0);
  if (op.has_input(1)) {
    RIDGE_TRY(given, op.known_integers(1));
    k = given.size() == 1 ? given.front() : -1;
  }
  if (k < 0 || k > x->shape[axis]) return op.error(fmt::format("expected k from 0 to {}, found {}", x->shape[axis], k));
  Shape shape = x->shape;
  shape[axis] = k;
  op.flops = x->elements();
  RIDGE_TRY_STATUS(op.set_output(0, shape, x->type));
  return op.set_output(1, shape, int64_type);
}

constexpr NamedDefinition reduction_table[] = {
    {"ArgMax", define_arg},
    {"ArgMin", define_arg},
    {"BatchNormalization", define_batch_norm},
    {"CumSum", define_cumulative_sum},
    {"GroupNormalization", define_plain_norm},
    {"Hardmax", define_softmax},
    {"InstanceNormalization", define_plain_norm},
    {"LRN", define_local_norm},
    {"LayerNormalization", define_layer_norm},
    {"LogSoftmax", define_softmax},
    {"LpNormalization", define_rms_norm},
    {"MeanVarianceNormalization", define_plain_norm},
    {"RMSNormalization", define_rms_norm},
    {"ReduceL1", define_reduction<2>},
    {"ReduceL2", define_reduction<2>},
    {"ReduceLogSum", define_reduction<1>},
    {"ReduceLogSumExp", define_log_sum_exp},
    {"ReduceMax", define_reduction<1>},
    {"ReduceMean", define_reduction<1>},
    {"ReduceMin", define_reduction<1>},
    {"ReduceProd", define_reduction<1>},
    {"ReduceSum", define_reduction<1>},
    {"ReduceSumSquare", define_reduction<2>},
    {"SimplifiedLayerNormalization", define_rms_norm},
    {"SkipLayerNormalization", define_skip_norm<5>},
    {"SkipSimplifiedLayerNormalization", define_skip_norm<3>},
    {"Softmax", define_softmax},
    {"TopK", define_top_k},
};

}  // namespace

std::span<const NamedDefinition> reduction_definitions() { return reduction_table; }

}  // namespace ridge::onnx
