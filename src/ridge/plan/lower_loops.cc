// Lowers routine statements (program/routine.h) to loops (ops/loops) with sizes and strides by dimension, a routed
// product to a grouped product, and a product of block-scaled operands to their conversion and a product.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "ridge/base/contains.h"
#include "ridge/base/dtype_set.h"
#include "ridge/ops/routing/problem.h"
#include "ridge/plan/lower.h"
#include "ridge/program/contraction.h"
#include "ridge/program/routine.h"

namespace ridge {
namespace {

std::int64_t stride_of(const View& view, const std::string& dim) { return axis_along(view.shape, dim).stride; }

ops::LoopAxis loop_axis(const SizedAxis& axis, const View& values, const View& indices, const View& result) {
  return {axis.extent, stride_of(values, axis.dim), stride_of(indices, axis.dim), stride_of(result, axis.dim)};
}

// True if a tensor of a convolution is dense with its channels last in memory, whatever the order of its axes.
bool has_dense_channels_last(Shape shape, const Routine& conv) {
  shape = channels_first(std::move(shape), conv);
  std::rotate(shape.begin() + 1, shape.begin() + 2, shape.end());
  return is_dense(shape);
}

// Lowers a depthwise convolution that reads and writes channels last.
void lower_channels_last(Lowering& to, int group, const Expression& e, ops::ConvLoops conv) {
  conv.channels_last = true;
  const std::vector<int> in = expression_operands(e);
  const int input = convert_tensor(to, group, in[0], conv.x),
            weights = convert_conv_operand(to, group, in[1], *e.routine, conv.w);
  to.plan.steps.push_back({.group = group,
                           .kernel = std::move(conv),
                           .buffers = {input, weights, to.view_of(e.result).buffer},
                           .copy_description = ""});
}

// Lowers a convolution in groups of few output channels. Its kernel loads f32, bf16 and f16.
void lower_direct_convolution(Lowering& to, int group, const Expression& e) {
  const std::vector<int> in = expression_operands(e);
  const auto loaded = [&](int t) { return StoredFloats::contains(to.dtype_of(t)) ? to.dtype_of(t) : DType::f32; };
  const auto shape_of = [&](int t) { return channels_first(to.shape_of(t), *e.routine); };
  ops::ConvLoops out = make_direct_convolution(shape_of(in[0]), shape_of(in[1]), shape_of(e.result), *e.routine);
  out.x = loaded(in[0]);
  out.w = loaded(in[1]);
  out.y = to.dtype_of(e.result);
  const bool takes_channels_last =
      to.plan.fusion.target == Target::cpu ? ops::uses_channel_blocks(out) : ops::can_convolve_channels_last(out);
  if (takes_channels_last && has_dense_channels_last(to.shape_of(in[0]), *e.routine) &&
      has_dense_channels_last(to.shape_of(e.result), *e.routine))
    return lower_channels_last(to, group, e, std::move(out));
  const int input = convert_conv_operand(to, group, in[0], *e.routine, out.x),
            weights = convert_conv_operand(to, group, in[1], *e.routine, out.w),
            result = add_conv_result(to, e.result, *e.routine);
  to.plan.steps.push_back(
      {.group = group, .kernel = std::move(out), .buffers = {input, weights, result}, .copy_description = ""});
  copy_conv_result(to, group, e.result, *e.routine, result);
}

ops::GatherScatterLoops make_gather_scatter_loops(Lowering& to, const Expression& e) {
  const std::vector<int> in = expression_operands(e);
  const View &values = to.view_of(in[0]), &indices = to.view_of(in[1]), &result = to.view_of(e.result);
  const bool scatters = e.routine->kind == RoutineKind::scatter;
  const std::string over = axis_key(e.routine->over.front());
  const View& indexed_tensor = scatters ? result : values;
  const SizedAxis along_axis = axis_along(indexed_tensor.shape, over);
  ops::GatherScatterLoops out{.is_scatter = scatters,
                              .values = values.dtype,
                              .indices = indices.dtype,
                              .result = result.dtype,
                              .axes = {},
                              .index_extent = along_axis.extent,
                              .index_stride = along_axis.stride,
                              .result_elements = count_elements(result.shape)};
  for (const SizedAxis& axis : (scatters ? values : result).shape)
    if (!axis.dim.empty()) out.axes.push_back(loop_axis(axis, values, indices, result));
  return out;
}

ops::RunningSumLoops make_running_sum_loops(Lowering& to, const Expression& e) {
  const View &values = to.view_of(expression_operands(e)[0]), &result = to.view_of(e.result);
  const std::string over = axis_key(e.routine->over.front());
  ops::RunningSumLoops out{values.dtype, result.dtype, {}, {}};
  for (const SizedAxis& axis : result.shape) {
    if (axis.dim.empty()) continue;
    const ops::LoopAxis loop = loop_axis(axis, values, {}, result);
    if (axis.dim == over)
      out.axis = loop;
    else
      out.axes.push_back(loop);
  }
  return out;
}

// Lowers topk, argmax, sort and argsort.
ops::TopKLoops make_topk_loops(Lowering& to, const Expression& e) {
  const View &values = to.view_of(expression_operands(e)[0]), &result = to.view_of(e.result);
  const std::string over = axis_key(e.routine->over.front());
  const Routine& r = *e.routine;
  const bool sorts = r.kind == RoutineKind::sort || r.kind == RoutineKind::argsort;
  ops::TopKLoops out{.values = values.dtype,
                     .result = result.dtype,
                     .axes = {},
                     .axis = {},
                     .ascending = sorts && !r.descending,
                     .stores_values = r.kind == RoutineKind::sort};
  for (const SizedAxis& axis : values.shape) {
    if (axis.dim.empty()) continue;
    if (axis.dim == over)
      out.axis = loop_axis(axis, values, {}, {});
    else
      out.axes.push_back(loop_axis(axis, values, {}, result));
  }
  for (const SizedAxis& axis : result.shape)
    if (!axis.dim.empty() && (axis.dim == over || !has_axis(values.shape, axis.dim))) {
      out.count = axis.extent;
      out.result_stride = axis.stride;
    }
  return out;
}

ops::PoolLoops make_pool_loops(Lowering& to, const Expression& e) {
  const int x = expression_operands(e)[0];
  const Routine& r = *e.routine;
  ops::PoolLoops out{to.dtype_of(x), to.dtype_of(e.result), r.kind == RoutineKind::max_pool, {}};
  const std::vector<Axis>& axes = to.program.tensors[x].axes;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const SizedAxis &in = to.shape_of(x)[i], &positions = to.shape_of(e.result)[i];
    ops::PoolAxis axis{.in = in.extent, .out = positions.extent};
    if (contains(r.over, axes[i])) axis = {in.extent, positions.extent, r.window, r.stride, r.padding, r.dilation};
    axis.x_stride = in.stride;
    axis.y_stride = positions.stride;
    out.axes.push_back(axis);
  }
  return out;
}

ops::RotaryLoops make_rotary_loops(Lowering& to, const Expression& e) {
  const std::vector<int> in = expression_operands(e);
  const View &values = to.view_of(in[0]), &positions = to.view_of(in[1]), &result = to.view_of(e.result);
  const std::string over = axis_key(e.routine->over.front());
  ops::RotaryLoops out{.values = values.dtype,
                       .positions = positions.dtype,
                       .result = result.dtype,
                       .axes = {},
                       .axis = {},
                       .base = static_cast<double>(e.routine->base),
                       .interleaved = e.routine->interleaved};
  for (const SizedAxis& axis : values.shape) {
    if (axis.dim.empty()) continue;
    const ops::LoopAxis loop = loop_axis(axis, values, positions, result);
    if (axis.dim == over)
      out.axis = loop;
    else
      out.axes.push_back(loop);
  }
  return out;
}

ops::RoutedProductLoops make_routed_product_loops(Lowering& to, const Expression& e) {
  const std::vector<int> in = expression_operands(e);
  const View &x = to.view_of(in[0]), &w = to.view_of(in[1]), &ids = to.view_of(in[2]), &result = to.view_of(e.result);
  const std::string over = axis_key(e.routine->over.front());
  ops::RoutedProductLoops out{.values = x.dtype,
                              .weights = w.dtype,
                              .indices = ids.dtype,
                              .result = result.dtype,
                              .experts = axis_along(w.shape, over).extent,
                              .expert_stride = stride_of(w, over),
                              .capacity = e.routine->capacity,
                              .index_count = count_elements(ids.shape)};
  for (const SizedAxis& axis : result.shape) {
    if (axis.dim.empty()) continue;
    out.axes.push_back(loop_axis(axis, x, ids, result));
    out.weight_strides.push_back(stride_of(w, axis.dim));
  }
  for (const SizedAxis& axis : x.shape) {
    if (axis.dim.empty() || has_axis(result.shape, axis.dim)) continue;
    out.summed.push_back(loop_axis(axis, x, {}, {}));
    out.summed_weight_strides.push_back(stride_of(w, axis.dim));
  }
  return out;
}

// The axes of the result in order, with the scanned axis last.
struct RecurrenceAxes {
  std::vector<SizedAxis> all;
  std::vector<std::int64_t> strides_of(const View& view) const {
    std::vector<std::int64_t> out;
    for (const SizedAxis& axis : all) out.push_back(stride_of(view, axis.dim));
    return out;
  }
  std::size_t index_of(const std::string& dim) const {
    return static_cast<std::size_t>(
        std::find_if(all.begin(), all.end(), [&](const SizedAxis& a) { return a.dim == dim; }) - all.begin());
  }
};

ops::RecurrenceNode make_recurrence_node(Lowering& to, const Node& node, const RecurrenceAxes& axes) {
  using ScanKind = ops::RecurrenceNode::Kind;
  switch (node.kind) {
    case Node::Kind::tensor: return {.kind = ScanKind::load};
    case Node::Kind::number: return {.kind = ScanKind::number, .number = node.number};
    case Node::Kind::size:
      return {.kind = ScanKind::number, .number = static_cast<double>(to.sizes.at(node.over[0].dim))};
    case Node::Kind::index: return {.kind = ScanKind::index, .axis = axes.index_of(node.over[0].dim)};
    case Node::Kind::previous: return {.kind = ScanKind::previous};
    default: break;
  }
  return {.kind = ScanKind::call, .function = node.function, .arguments = node.arguments, .repeat = node.repeat};
}

ops::RecurrenceLoops make_recurrence_loops(Lowering& to, const Expression& e) {
  const std::string over = axis_key(e.routine->over.front());
  const View& result = to.view_of(e.result);
  RecurrenceAxes axes;
  for (const SizedAxis& axis : result.shape)
    if (!axis.dim.empty() && axis.dim != over) axes.all.push_back(axis);
  axes.all.push_back(axis_along(result.shape, over));
  ops::RecurrenceLoops out;
  for (const SizedAxis& axis : axes.all) out.extents.push_back(axis.extent);
  for (const Node& node : e.nodes) {
    if (node.kind == Node::Kind::routine) break;
    out.nodes.push_back(make_recurrence_node(to, node, axes));
    if (node.kind != Node::Kind::tensor) continue;
    out.nodes.back().operand = static_cast<int>(out.operands.size());
    const View& view = to.view_of(node.tensor);
    out.operands.push_back({view.dtype, axes.strides_of(view)});
  }
  out.operands.push_back({result.dtype, axes.strides_of(result)});
  return out;
}

ops::QuantizeLoops make_quantize_loops(Lowering& to, const Expression& e) {
  const View &values = to.view_of(expression_operands(e)[0]), &result = to.view_of(e.result);
  ops::QuantizeLoops out{values.dtype, result.dtype, {}, {}};
  for (const SizedAxis& axis : result.shape)
    if (!axis.dim.empty()) out.axes.push_back(loop_axis(axis, values, {}, result));
  out.axis = out.axes.back();
  out.axes.pop_back();
  return out;
}

// Adds a step that converts a block-scaled tensor, and returns the buffer of its elements.
int dequantize_tensor(Lowering& to, int group, int tensor, DType dtype) {
  const View& view = to.view_of(tensor);
  const ops::DequantizeLoops kernel{view.dtype, dtype, count_elements(view.shape)};
  const int converted = to.add_buffer(dtype, kernel.elements);
  to.plan.steps.push_back({.group = group,
                           .kernel = kernel,
                           .buffers = {view.buffer, converted},
                           .copy_description = fmt::format("{} from {} to {}", to.tensor_name(tensor),
                                                           dtype_name(view.dtype), dtype_name(dtype))});
  return converted;
}

// Multiplies as any product or, without a sum, as a chain. On a device the product reads two operands of e4m3_128 as
// they are stored, and narrow weights. On a CPU the product converts at most one block-scaled operand. All others are
// converted first.
void lower_scaled_product(Lowering& to, int group, const Contraction& c) {
  if (can_multiply_scaled_pair(to, c)) return lower_contraction(to, group, c);
  const View left = to.view_of(c.left), right = to.view_of(c.right);
  const auto is_read_as_stored = [&](int tensor) {
    return is_block_scaled(to.dtype_of(tensor)) && can_multiply_scaled(to, c, tensor);
  };
  int unconverted = -1;
  if (is_read_as_stored(c.right))
    unconverted = c.right;
  else if (is_read_as_stored(c.left))
    unconverted = c.left;
  // f32 has every product of an integer and an f16 scale. Only the tensor cores of a device multiply rounded ones.
  const bool may_round = to.plan.fusion.target == Target::cuda && has_sum(c);
  const auto needs_f32 = [&](int tensor) {
    return !may_round && has_integer_blocks(to.dtype_of(tensor)) && tensor != unconverted;
  };
  const DType dtype = needs_f32(c.left) || needs_f32(c.right)
                          ? DType::f32
                          : dequantized_dtype(to.plan.fusion.target, left.dtype, right.dtype);
  for (const int tensor : {c.left, c.right}) {
    View& view = to.tensors[tensor];
    if (!is_block_scaled(view.dtype) || tensor == unconverted) continue;
    view.buffer = dequantize_tensor(to, group, tensor, dtype);
    view.dtype = dtype;
  }
  has_sum(c) ? lower_contraction(to, group, c) : lower_pointwise(to, group);
  to.tensors[c.left] = left;
  to.tensors[c.right] = right;
}

// u[N, 2, F] = routed(x, w, i over E) as kernels: gather the rows of x in the order of the experts in i, multiply them
// with one grouped product, and scatter its rows to the positions of their indices. The layouts must satisfy: i's
// dimensions come first in u, and all of them or all but the last first in x; the remaining dimensions are contiguous;
// and w has one matrix for each expert that is contiguous along its rows or columns.
using DimList = std::vector<std::string>;

DimList dims_in_order(const Shape& shape) {
  DimList out;
  for (const SizedAxis& axis : shape)
    if (!axis.dim.empty()) out.push_back(axis.dim);
  return out;
}
// True if the shape has exactly these dimensions in this order, contiguous.
bool is_contiguous_as(const Shape& shape, const DimList& dims) {
  if (dims_in_order(shape) != dims) return false;
  std::int64_t packed_stride = 1;
  for (auto dim = dims.rbegin(); dim != dims.rend(); ++dim) {
    const SizedAxis axis = axis_along(shape, *dim);
    if (axis.extent > 1 && axis.stride != packed_stride) return false;
    packed_stride *= axis.extent;
  }
  return true;
}
DimList concat_dims(DimList first, const DimList& rest) {
  first.insert(first.end(), rest.begin(), rest.end());
  return first;
}

struct RoutedDims {
  DimList indices = {};  // all dimensions of the indices
  DimList leading = {};  // the first dimensions of x, which are the indices' or all of these but the last
  DimList n = {}, k = {};
};

RoutedDims find_routed_dims(const Shape& x, const Shape& ids, const Shape& result) {
  RoutedDims out{.indices = dims_in_order(ids), .leading = dims_in_order(ids)};
  if (!out.leading.empty() && !has_axis(x, out.leading.back())) out.leading.pop_back();
  for (const std::string& dim : dims_in_order(result))
    if (!has_axis(ids, dim)) out.n.push_back(dim);
  for (const std::string& dim : dims_in_order(x))
    if (!has_axis(result, dim)) out.k.push_back(dim);
  return out;
}

struct RoutedProductKernels {
  ops::RoutingProblem gather, scatter;
  ops::MatmulProblem product;
};

std::optional<RoutedProductKernels> make_routed_product_kernels(const Lowering& to, const Expression& e) {
  const std::vector<int> in = expression_operands(e);
  const View &x = to.view_of(in[0]), &w = to.view_of(in[1]), &ids = to.view_of(in[2]), &result = to.view_of(e.result);
  const std::string over = axis_key(e.routine->over.front());
  const auto [indices, leading, n, k] = find_routed_dims(x.shape, ids.shape, result.shape);
  for (const std::string& dim : dims_in_order(w.shape))  // w must have only the dimensions of E, n and k
    if (dim != over && std::count(n.begin(), n.end(), dim) + std::count(k.begin(), k.end(), dim) == 0)
      return std::nullopt;
  const auto w_n = merged_stride(w.shape, n), w_k = merged_stride(w.shape, k);
  if (x.dtype != w.dtype || !w_n || !w_k || !is_contiguous_as(ids.shape, indices) ||
      !is_contiguous_as(result.shape, concat_dims(indices, n)) || !is_contiguous_as(x.shape, concat_dims(leading, k)))
    return std::nullopt;
  const SizedAxis experts = axis_along(w.shape, over);
  const std::int64_t count = count_elements(ids.shape), capacity = e.routine->capacity,
                     n_extent = extent_along(result.shape, n), k_extent = extent_along(x.shape, k);
  if ((*w_n != 1 && n_extent > 1) && (*w_k != 1 && k_extent > 1)) return std::nullopt;
  RoutedProductKernels out;
  out.gather = {.values = x.dtype,
                .indices = ids.dtype,
                .index_count = count,
                .indices_per_row = count / extent_along(ids.shape, leading),
                .groups = experts.extent,
                .width = k_extent,
                .capacity = capacity};
  out.scatter = out.gather;
  out.scatter.restores_order = true;
  out.scatter.values = result.dtype;
  out.scatter.width = n_extent;
  out.product = {.batch = experts.extent,
                 .size = {out.gather.sorted_rows(), n_extent, k_extent},
                 .a = {x.dtype, k_extent, 1},
                 .b = {w.dtype, *w_k, *w_n, experts.stride},
                 .d = {result.dtype, n_extent, 1},
                 .grouped = true};
  if (unsupported_reason(out.gather)) return std::nullopt;
  if (is_block_scaled(x.dtype) && ops::validate_scaled_pair(out.product)) return std::nullopt;
  return out;
}

// Lowers a routed product to a grouped product. Returns false and adds nothing if the layouts do not allow it.
bool lower_as_grouped_product(Lowering& to, int group, const Expression& e) {
  const auto found = make_routed_product_kernels(to, e);
  if (!found) return false;
  const std::vector<int> in = expression_operands(e);
  const int x = to.view_of(in[0]).buffer, w = to.view_of(in[1]).buffer, ids = to.view_of(in[2]).buffer;
  const ops::MatmulProblem& p = found->product;
  const int row_indices = to.add_buffer(DType::int32, found->gather.row_map_elements());
  const int rows = to.add_buffer(p.a.dtype, p.size.m * p.size.k), sums = to.add_buffer(p.d.dtype, p.size.m * p.size.n);
  const auto add = [&](auto kernel, std::vector<int> buffers, std::string copy) {
    to.plan.steps.push_back({.group = group,
                             .kernel = std::move(kernel),
                             .buffers = std::move(buffers),
                             .copy_description = std::move(copy)});
  };
  const std::string over = axis_key(e.routine->over.front());
  add(found->gather, {ids, x, row_indices, rows}, "rows of " + to.tensor_name(in[0]) + " to the order of " + over);
  add(p, {rows, w, sums, row_indices}, "");
  add(found->scatter, {row_indices, sums, to.view_of(e.result).buffer},
      "rows of " + to.tensor_name(e.result) + " back");
  return true;
}

// Lowers a routed product. Devices multiply sorted rows of e4m3 and e4m3_128 as they are stored; otherwise these are
// converted to bf16 and f32, which is exact.
void lower_routed_product(Lowering& to, int group, const Expression& e) {
  const bool is_sorted = !to.plan.fusion.unsorted_routing.contains(to.plan.fusion.groups[group].statements.front());
  const std::vector<int> in = expression_operands(e);
  const bool has_narrow_operands = !StoredFloats::contains(to.dtype_of(in[0]));
  const bool is_on_device = to.plan.fusion.target == Target::cuda;
  if (is_sorted && (is_on_device || !has_narrow_operands) && lower_as_grouped_product(to, group, e)) return;
  const View values = to.view_of(in[0]), weights = to.view_of(in[1]);
  if (has_narrow_operands) {
    for (const int tensor : {in[0], in[1]}) {
      View& view = to.tensors[tensor];
      const DType dtype = is_block_scaled(view.dtype) ? DType::f32 : DType::bf16;
      view.buffer = is_block_scaled(view.dtype) ? dequantize_tensor(to, group, tensor, dtype)
                                                : convert_tensor(to, group, tensor, dtype);
      view.dtype = dtype;
    }
  }
  if (!is_sorted || !has_narrow_operands || !lower_as_grouped_product(to, group, e)) {
    PlanStep step{.group = group, .kernel = make_routed_product_loops(to, e), .buffers = {}, .copy_description = ""};
    for (const int t : in) step.buffers.push_back(to.view_of(t).buffer);
    step.buffers.push_back(to.view_of(e.result).buffer);
    to.plan.steps.push_back(std::move(step));
  }
  to.tensors[in[0]] = values;
  to.tensors[in[1]] = weights;
}

}  // namespace

void lower_loops(Lowering& to, int group) {
  const int statement = to.plan.fusion.groups[group].statements.front();
  if (const auto* c = std::get_if<Contraction>(&to.statement_at(statement).op))
    return lower_scaled_product(to, group, *c);
  const auto& e = std::get<Expression>(to.statement_at(statement).op);
  if (e.routine->kind == RoutineKind::routed) return lower_routed_product(to, group, e);
  if (e.routine->kind == RoutineKind::conv) return lower_direct_convolution(to, group, e);
  if (e.routine->kind == RoutineKind::conv_transpose) return lower_transposed_convolution(to, group, e);
  PlanStep step{.group = group, .kernel = {}, .buffers = {}, .copy_description = ""};
  for (const int t : expression_operands(e)) step.buffers.push_back(to.view_of(t).buffer);
  step.buffers.push_back(to.view_of(e.result).buffer);
  switch (e.routine->kind) {
    case RoutineKind::conv:
    case RoutineKind::conv_transpose:
    case RoutineKind::routed: break;  // lowered above
    case RoutineKind::gather:
    case RoutineKind::scatter: step.kernel = make_gather_scatter_loops(to, e); break;
    case RoutineKind::cumsum: step.kernel = make_running_sum_loops(to, e); break;
    case RoutineKind::topk:
    case RoutineKind::argmax:
    case RoutineKind::sort:
    case RoutineKind::argsort: step.kernel = make_topk_loops(to, e); break;
    case RoutineKind::rotary: step.kernel = make_rotary_loops(to, e); break;
    case RoutineKind::max_pool:
    case RoutineKind::avg_pool: step.kernel = make_pool_loops(to, e); break;
    case RoutineKind::scan: step.kernel = make_recurrence_loops(to, e); break;
    case RoutineKind::quantize: step.kernel = make_quantize_loops(to, e); break;
  }
  const bool needs_sums = e.routine->kind == RoutineKind::scatter && to.plan.fusion.target == Target::cpu;
  if (needs_sums && to.dtype_of(e.result) != DType::f32)
    step.buffers.push_back(to.add_buffer(DType::f32, count_elements(to.shape_of(e.result))));
  to.plan.steps.push_back(std::move(step));
}

}  // namespace ridge
