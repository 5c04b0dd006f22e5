#include "ridge/plan/ranks/split_reductions.h"

#include <algorithm>

#include "ridge/base/contains.h"
#include "ridge/distributed/partition.h"
#include "ridge/program/sharding.h"

namespace ridge::ranks {
namespace {

using NodeList = std::vector<Node>;

NodeList tensor_node(int tensor) { return {{.kind = Node::Kind::tensor, .tensor = tensor}}; }
NodeList number_node(double value) { return {{.kind = Node::Kind::number, .number = value}}; }

// Returns the concatenated argument trees followed by `node`, which refers to their roots.
NodeList append_node(Node node, const std::vector<NodeList>& arguments) {
  NodeList out;
  node.arguments.clear();
  for (const NodeList& tree : arguments) {
    const int offset = static_cast<int>(out.size());
    for (Node copy : tree) {
      for (int& argument : copy.arguments) argument += offset;
      out.push_back(std::move(copy));
    }
    node.arguments.push_back(static_cast<int>(out.size()) - 1);
  }
  out.push_back(std::move(node));
  return out;
}
NodeList call_node(Function function, const std::vector<NodeList>& arguments) {
  return append_node({.kind = Node::Kind::call, .function = function}, arguments);
}

}  // namespace

ReductionSplitter::ReductionSplitter(const Program& program, const Bindings& sizes,
                                     std::function<int(const PartialReduction&)> reduce_partial)
    : program_(program), sizes_(sizes), reduce_partial_(std::move(reduce_partial)) {}

double ReductionSplitter::element_count(const std::vector<Axis>& over) const {
  double out = 1;
  for (const Axis& axis : over) out *= static_cast<double>(axis_extent(axis, sizes_));
  return out;
}

std::string ReductionSplitter::mesh_axes_splitting(const std::vector<Axis>& over) const {
  std::string out;
  for (const Axis& axis : over) out += find_mesh_axes(program_, *expression_, axis);
  std::sort(out.begin(), out.end());
  return out;
}

NodeList ReductionSplitter::add_reduction(Function function, const NodeList& argument, const Node& node,
                                          const std::vector<Axis>& axes) {
  PartialReduction partial{.value = argument,
                           .over = node.over,
                           .kept_axes = {},
                           .function = function,
                           .mesh_axes = mesh_axes_splitting(node.over)};
  if (function == Function::max) partial.reduce_op = transport::ReduceOp::max;
  if (function == Function::min) partial.reduce_op = transport::ReduceOp::min;
  for (Axis axis : axes) {
    if (contains(node.over, axis)) continue;
    axis.mesh = find_mesh_axes(program_, *expression_, axis);
    partial.kept_axes.push_back(std::move(axis));
  }
  if (partial.kept_axes.empty()) partial.kept_axes.push_back({.dim = "", .literal = 1});
  return tensor_node(reduce_partial_(partial));
}

NodeList ReductionSplitter::split_rmsnorm(const NodeList& argument, const Node& node, const std::vector<Axis>& axes) {
  const NodeList squares =
      add_reduction(Function::sum, call_node(Function::multiply, {argument, argument}), node, axes);
  const NodeList mean = call_node(Function::divide, {squares, number_node(element_count(node.over))});
  return call_node(
      Function::multiply,
      {argument, call_node(Function::rsqrt, {call_node(Function::add, {mean, number_node(norm_epsilon)})})});
}

NodeList ReductionSplitter::split_reduction(const Node& node, const NodeList& argument, const std::vector<Axis>& axes) {
  const auto mean = [&] {
    return call_node(Function::divide,
                     {add_reduction(Function::sum, argument, node, axes), number_node(element_count(node.over))});
  };
  switch (node.function) {
    case Function::mean: return mean();
    case Function::rmsnorm: return split_rmsnorm(argument, node, axes);
    case Function::layernorm: return split_rmsnorm(call_node(Function::subtract, {argument, mean()}), node, axes);
    case Function::softmax: {
      const NodeList largest = add_reduction(Function::max, argument, node, axes);
      const NodeList power = call_node(Function::exp, {call_node(Function::subtract, {argument, largest})});
      return call_node(Function::divide, {power, add_reduction(Function::sum, power, node, axes)});
    }
    default: return add_reduction(node.function, argument, node, axes);
  }
}

std::vector<Node> ReductionSplitter::split_reductions(const Expression& expression, const Bindings& begins) {
  expression_ = &expression;
  const auto is_split = [&](const Node& node) { return !node.over.empty() && !mesh_axes_splitting(node.over).empty(); };
  if (std::none_of(expression.nodes.begin(), expression.nodes.end(), is_split)) return expression.nodes;
  const IndexSpaces found = find_index_spaces(program_.tensors, expression.nodes);
  std::vector<NodeList> trees;
  for (const Node& node : expression.nodes) {
    std::vector<NodeList> arguments;
    for (const int argument : node.arguments) arguments.push_back(trees[argument]);
    const bool split = is_split(node);
    if (node.kind == Node::Kind::along_dims && split) {
      const int space = found.space_of_node[node.arguments[0]];
      trees.push_back(split_reduction(node, arguments[0], found.axes[space]));
    } else if (node.kind == Node::Kind::size && split) {
      trees.push_back(number_node(element_count(node.over)));
    } else if (node.kind == Node::Kind::index && split && begins.contains(node.over.front().dim)) {
      const auto begin = static_cast<double>(begins.at(node.over.front().dim));
      trees.push_back(call_node(Function::add, {append_node(node, {}), number_node(begin)}));
    } else {
      trees.push_back(append_node(node, arguments));
    }
  }
  return trees.back();
}

}  // namespace ridge::ranks
