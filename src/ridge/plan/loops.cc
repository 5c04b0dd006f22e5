// Lowers routine statements (program/routine.h) to loops (ops/loops) with sizes and strides by dimension, or a routed
// product to a grouped product.
#include <algorithm>
#include <optional>

#include "ridge/ops/routing/problem.h"
#include "ridge/plan/lower.h"
#include "ridge/program/routine.h"

namespace ridge {
namespace {

std::int64_t stride(const View& view, const std::string& dim) { return along(view.shape, dim).stride; }

ops::LoopAxis axis_of(const SizedAxis& axis, const View& values, const View& indices, const View& result) {
  return {axis.extent, stride(values, axis.dim), stride(indices, axis.dim), stride(result, axis.dim)};
}

ops::ConvLoops conv(Lowering& to, const Expression& e) {
  const std::vector<int> in = operands_of(e);
  const Shape &x = to.shape_of(in[0]), &w = to.shape_of(in[1]), &y = to.shape_of(e.result);
  const Routine& r = *e.routine;
  ops::ConvLoops out{.x = to.dtype_of(in[0]),
                     .w = to.dtype_of(in[1]),
                     .y = to.dtype_of(e.result),
                     .batch = x[0].extent,
                     .channels = x[1].extent,
                     .made = w[0].extent,
                     .groups = x[1].extent / w[1].extent,
                     .along = {},
                     .stride = r.stride,
                     .padding = r.padding,
                     .dilation = r.dilation};
  for (std::size_t i = conv_batch_and_channels; i < x.size(); ++i)
    out.along.push_back({x[i].extent, y[i].extent, w[i].extent});
  return out;
}

ops::IndexLoops indexed(Lowering& to, const Expression& e) {
  const std::vector<int> in = operands_of(e);
  const View &values = to.view(in[0]), &indices = to.view(in[1]), &result = to.view(e.result);
  const bool scatters = e.routine->word == Word::scatter;
  const std::string over = shape_key(e.routine->over.front());
  const View& pointed = scatters ? result : values;
  const SizedAxis along_axis = along(pointed.shape, over);
  ops::IndexLoops out{.scatters = scatters,
                      .values = values.dtype,
                      .indices = indices.dtype,
                      .result = result.dtype,
                      .axes = {},
                      .along = along_axis.extent,
                      .along_stride = along_axis.stride,
                      .elements = elements(result.shape)};
  for (const SizedAxis& axis : (scatters ? values : result).shape)
    if (!axis.dim.empty()) out.axes.push_back(axis_of(axis, values, indices, result));
  return out;
}

ops::RunningLoops running(Lowering& to, const Expression& e) {
  const View &values = to.view(operands_of(e)[0]), &result = to.view(e.result);
  const std::string over = shape_key(e.routine->over.front());
  ops::RunningLoops out{values.dtype, result.dtype, {}, {}};
  for (const SizedAxis& axis : result.shape) {
    if (axis.dim.empty()) continue;
    const ops::LoopAxis loop = axis_of(axis, values, {}, result);
    if (axis.dim == over)
      out.along = loop;
    else
      out.axes.push_back(loop);
  }
  return out;
}

ops::TopLoops top(Lowering& to, const Expression& e) {
  const View &values = to.view(operands_of(e)[0]), &result = to.view(e.result);
  const std::string over = shape_key(e.routine->over.front());
  ops::TopLoops out{.values = values.dtype, .result = result.dtype, .axes = {}, .along = {}};
  for (const SizedAxis& axis : values.shape) {
    if (axis.dim.empty()) continue;
    if (axis.dim == over)
      out.along = axis_of(axis, values, {}, {});
    else
      out.axes.push_back(axis_of(axis, values, {}, result));
  }
  for (const SizedAxis& axis : result.shape)
    if (!axis.dim.empty() && !has(values.shape, axis.dim)) {
      out.chosen = axis.extent;
      out.chosen_stride = axis.stride;
    }
  return out;
}

ops::RoutedLoops routed(Lowering& to, const Expression& e) {
  const std::vector<int> in = operands_of(e);
  const View &x = to.view(in[0]), &w = to.view(in[1]), &ids = to.view(in[2]), &result = to.view(e.result);
  const std::string over = shape_key(e.routine->over.front());
  ops::RoutedLoops out{.values = x.dtype,
                       .weights = w.dtype,
                       .indices = ids.dtype,
                       .result = result.dtype,
                       .experts = along(w.shape, over).extent,
                       .expert_stride = stride(w, over),
                       .capacity = e.routine->capacity,
                       .index_count = elements(ids.shape)};
  for (const SizedAxis& axis : result.shape) {
    if (axis.dim.empty()) continue;
    out.axes.push_back(axis_of(axis, x, ids, result));
    out.weight_strides.push_back(stride(w, axis.dim));
  }
  for (const SizedAxis& axis : x.shape) {
    if (axis.dim.empty() || has(result.shape, axis.dim)) continue;
    out.summed.push_back(axis_of(axis, x, {}, {}));
    out.summed_weight_strides.push_back(stride(w, axis.dim));
  }
  return out;
}

// The axes of the result in order, with the scanned axis last.
struct ScanAxes {
  std::vector<SizedAxis> all;
  std::vector<std::int64_t> strides(const View& view) const {
    std::vector<std::int64_t> out;
    for (const SizedAxis& axis : all) out.push_back(stride(view, axis.dim));
    return out;
  }
  std::size_t place(const std::string& dim) const {
    return static_cast<std::size_t>(
        std::find_if(all.begin(), all.end(), [&](const SizedAxis& a) { return a.dim == dim; }) - all.begin());
  }
};

ops::ScanNode scan_node(Lowering& to, const Node& node, const ScanAxes& axes) {
  using Kind = ops::ScanNode::Kind;
  switch (node.kind) {
    case Node::Kind::tensor: return {.kind = Kind::load};
    case Node::Kind::number: return {.kind = Kind::number, .number = node.number};
    case Node::Kind::size: return {.kind = Kind::number, .number = static_cast<double>(to.sizes.at(node.over[0].dim))};
    case Node::Kind::index: return {.kind = Kind::index, .axis = axes.place(node.over[0].dim)};
    case Node::Kind::previous: return {.kind = Kind::previous};
    default: break;
  }
  return {.kind = Kind::call, .function = node.function, .arguments = node.arguments, .repeat = node.repeat};
}

ops::ScanLoops scan(Lowering& to, const Expression& e) {
  const std::string over = shape_key(e.routine->over.front());
  const View& result = to.view(e.result);
  ScanAxes axes;
  for (const SizedAxis& axis : result.shape)
    if (!axis.dim.empty() && axis.dim != over) axes.all.push_back(axis);
  axes.all.push_back(along(result.shape, over));
  ops::ScanLoops out;
  for (const SizedAxis& axis : axes.all) out.extents.push_back(axis.extent);
  for (const Node& node : e.nodes) {
    if (node.kind == Node::Kind::routine) break;
    out.nodes.push_back(scan_node(to, node, axes));
    if (node.kind != Node::Kind::tensor) continue;
    out.nodes.back().operand = static_cast<int>(out.operands.size());
    const View& view = to.view(node.tensor);
    out.operands.push_back({view.dtype, axes.strides(view)});
  }
  out.operands.push_back({result.dtype, axes.strides(result)});
  return out;
}

ops::QuantizeLoops quantize(Lowering& to, const Expression& e) {
  const View &values = to.view(operands_of(e)[0]), &result = to.view(e.result);
  ops::QuantizeLoops out{values.dtype, result.dtype, {}, {}};
  for (const SizedAxis& axis : result.shape)
    if (!axis.dim.empty()) out.axes.push_back(axis_of(axis, values, {}, result));
  out.along = out.axes.back();
  out.axes.pop_back();
  return out;
}

ops::ProductLoops product(Lowering& to, const Contraction& c) {
  const View &left = to.view(c.left), &right = to.view(c.right), &result = to.view(c.result);
  ops::ProductLoops out{left.dtype, right.dtype, result.dtype, {}, {}};
  for (const SizedAxis& axis : result.shape)
    if (!axis.dim.empty()) out.axes.push_back(axis_of(axis, left, right, result));
  for (const SizedAxis& axis : left.shape)
    if (!axis.dim.empty() && !has(result.shape, axis.dim)) out.summed.push_back(axis_of(axis, left, right, {}));
  return out;
}

// u[N, 2, F] = routed(x, w, i over E) as kernels: gather the rows of x in the order of the experts in i, multiply them
// with one grouped product, and scatter its rows to the positions of their indices. The layouts must satisfy: i's
// dimensions come first in u, and all of them or all but the last first in x; the remaining dimensions are contiguous;
// and w has one matrix for each expert that is contiguous along its rows or columns.
using Dims = std::vector<std::string>;

Dims dims_of(const Shape& shape) {
  Dims out;
  for (const SizedAxis& axis : shape)
    if (!axis.dim.empty()) out.push_back(axis.dim);
  return out;
}
std::int64_t extent_of(const Shape& shape, const Dims& dims) {
  std::int64_t out = 1;
  for (const std::string& dim : dims) out *= along(shape, dim).extent;
  return out;
}
// True if the shape has exactly these dimensions in this order, contiguous.
bool lies_as(const Shape& shape, const Dims& dims) {
  if (dims_of(shape) != dims) return false;
  std::int64_t stride = 1;
  for (auto dim = dims.rbegin(); dim != dims.rend(); ++dim) {
    const SizedAxis axis = along(shape, *dim);
    if (axis.extent > 1 && axis.stride != stride) return false;
    stride *= axis.extent;
  }
  return true;
}
Dims joined(Dims first, const Dims& rest) {
  first.insert(first.end(), rest.begin(), rest.end());
  return first;
}

struct Routed {
  ops::RoutedRows there, back;
  ops::MatmulProblem product;
};

std::optional<Routed> in_groups(const Lowering& to, const Expression& e) {
  const std::vector<int> in = operands_of(e);
  const View &x = to.view(in[0]), &w = to.view(in[1]), &ids = to.view(in[2]), &result = to.view(e.result);
  const std::string over = shape_key(e.routine->over.front());
  const Dims indices = dims_of(ids.shape);
  Dims leading = indices, n, k;  // leading: the first dimensions of x
  if (!leading.empty() && !has(x.shape, leading.back())) leading.pop_back();
  for (const std::string& dim : dims_of(result.shape))
    if (!has(ids.shape, dim)) n.push_back(dim);
  for (const std::string& dim : dims_of(x.shape))
    if (!has(result.shape, dim)) k.push_back(dim);
  for (const std::string& dim : dims_of(w.shape))  // w must have only the dimensions of E, n and k
    if (dim != over && std::count(n.begin(), n.end(), dim) + std::count(k.begin(), k.end(), dim) == 0)
      return std::nullopt;
  const auto w_n = merged_stride(w.shape, n), w_k = merged_stride(w.shape, k);
  if (x.dtype != w.dtype || !w_n || !w_k || !lies_as(ids.shape, indices) ||
      !lies_as(result.shape, joined(indices, n)) || !lies_as(x.shape, joined(leading, k)))
    return std::nullopt;
  const SizedAxis experts = along(w.shape, over);
  const std::int64_t count = elements(ids.shape), capacity = e.routine->capacity, wide = extent_of(result.shape, n),
                     deep = extent_of(x.shape, k);
  if ((*w_n != 1 && wide > 1) && (*w_k != 1 && deep > 1)) return std::nullopt;
  Routed out;
  out.there = {.values = x.dtype,
               .indices = ids.dtype,
               .count = count,
               .each = count / extent_of(ids.shape, leading),
               .groups = experts.extent,
               .width = deep,
               .capacity = capacity};
  out.back = out.there;
  out.back.back = true;
  out.back.values = result.dtype;
  out.back.width = wide;
  out.product = {.batch = experts.extent,
                 .m = capacity > 0 && capacity <= count / experts.extent ? capacity * experts.extent : count,
                 .n = wide,
                 .k = deep,
                 .a = {x.dtype, deep, 1},
                 .b = {w.dtype, *w_k, *w_n, experts.stride},
                 .d = {result.dtype, wide, 1},
                 .grouped = true};
  if (refuse(out.there)) return std::nullopt;
  return out;
}

// Lowers a routed product to a grouped product. Returns false and adds nothing if the layouts do not allow it.
bool lower_in_groups(Lowering& to, int group, const Expression& e) {
  const auto found = in_groups(to, e);
  if (!found) return false;
  const std::vector<int> in = operands_of(e);
  const int x = to.view(in[0]).buffer, w = to.view(in[1]).buffer, ids = to.view(in[2]).buffer;
  const ops::MatmulProblem& p = found->product;
  const int places = to.add_buffer(DType::int32, found->there.places());
  const int rows = to.add_buffer(p.a.dtype, p.m * p.k), sums = to.add_buffer(p.d.dtype, p.m * p.n);
  const auto add = [&](auto kernel, std::vector<int> buffers, std::string copy) {
    to.plan.steps.push_back(
        {.group = group, .kernel = std::move(kernel), .buffers = std::move(buffers), .copy = std::move(copy)});
  };
  const std::string over = shape_key(e.routine->over.front());
  add(found->there, {ids, x, places, rows}, "rows of " + to.tensor_name(in[0]) + " to the order of " + over);
  add(p, {rows, w, sums, places}, "");
  add(found->back, {places, sums, to.view(e.result).buffer}, "rows of " + to.tensor_name(e.result) + " back");
  return true;
}

}  // namespace

void lower_loops(Lowering& to, int group) {
  const int statement = to.plan.fusion.groups[static_cast<std::size_t>(group)].statements.front();
  if (const auto* c = std::get_if<Contraction>(&to.statement(statement).op)) {
    to.plan.steps.push_back({.group = group,
                             .kernel = product(to, *c),
                             .buffers = {to.view(c->left).buffer, to.view(c->right).buffer, to.view(c->result).buffer},
                             .copy = ""});
    return;
  }
  const auto& e = std::get<Expression>(to.statement(statement).op);
  if (e.routine->word == Word::routed && lower_in_groups(to, group, e)) return;
  Step step{.group = group, .kernel = {}, .buffers = {}, .copy = ""};
  for (const int t : operands_of(e)) step.buffers.push_back(to.view(t).buffer);
  step.buffers.push_back(to.view(e.result).buffer);
  switch (e.routine->word) {
    case Word::conv: step.kernel = conv(to, e); break;
    case Word::gather:
    case Word::scatter: step.kernel = indexed(to, e); break;
    case Word::cumsum: step.kernel = running(to, e); break;
    case Word::topk: step.kernel = top(to, e); break;
    case Word::routed: step.kernel = routed(to, e); break;
    case Word::scan: step.kernel = scan(to, e); break;
    case Word::quantize: step.kernel = quantize(to, e); break;
  }
  if (e.routine->word == Word::scatter && to.dtype_of(e.result) != DType::f32)
    step.buffers.push_back(to.add_buffer(DType::f32, elements(to.shape_of(e.result))));
  to.plan.steps.push_back(std::move(step));
}

}  // namespace ridge
