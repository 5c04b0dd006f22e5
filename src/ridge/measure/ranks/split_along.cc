#include "ridge/measure/ranks/split_along.h"

#include <algorithm>

#include "ridge/distributed/cuts.h"
#include "ridge/program/sharding.h"

namespace ridge::ranks {
namespace {

using Tree = std::vector<Node>;

Tree leaf(int tensor) { return {{.kind = Node::Kind::tensor, .tensor = tensor}}; }
Tree number(double value) { return {{.kind = Node::Kind::number, .number = value}}; }

// Returns the concatenated argument trees followed by `node`, which refers to their roots.
Tree above(Node node, const std::vector<Tree>& arguments) {
  Tree out;
  node.arguments.clear();
  for (const Tree& tree : arguments) {
    const int shift = static_cast<int>(out.size());
    for (Node copy : tree) {
      for (int& argument : copy.arguments) argument += shift;
      out.push_back(std::move(copy));
    }
    node.arguments.push_back(static_cast<int>(out.size()) - 1);
  }
  out.push_back(std::move(node));
  return out;
}
Tree call(Function function, const std::vector<Tree>& arguments) {
  return above({.kind = Node::Kind::call, .function = function}, arguments);
}

}  // namespace

AlongParts::AlongParts(const Program& program, const Bindings& sizes, std::function<int(const Partial&)> bring_together)
    : program_(program), sizes_(sizes), bring_together_(std::move(bring_together)) {}

double AlongParts::size(const std::vector<Axis>& over) const {
  double out = 1;
  for (const Axis& axis : over) out *= static_cast<double>(extent(axis, sizes_));
  return out;
}

std::string AlongParts::letters(const std::vector<Axis>& over) const {
  std::string out;
  for (const Axis& axis : over) out += split_over(program_, *expression_, axis);
  std::sort(out.begin(), out.end());
  return out;
}

Tree AlongParts::reduced(Function function, const Tree& argument, const Node& node, const std::vector<Axis>& has) {
  Partial partial{
      .value = argument, .over = node.over, .kept = {}, .function = function, .letters = letters(node.over)};
  if (function == Function::max) partial.how = transport::Reduction::max;
  if (function == Function::min) partial.how = transport::Reduction::min;
  for (Axis axis : has) {
    if (std::find(node.over.begin(), node.over.end(), axis) != node.over.end()) continue;
    axis.mesh = split_over(program_, *expression_, axis);
    partial.kept.push_back(std::move(axis));
  }
  if (partial.kept.empty()) partial.kept.push_back({.dim = "", .literal = 1});
  return leaf(bring_together_(partial));
}

Tree AlongParts::normalized(const Tree& argument, const Node& node, const std::vector<Axis>& has) {
  const Tree squares = reduced(Function::sum, call(Function::multiply, {argument, argument}), node, has);
  const Tree mean = call(Function::divide, {squares, number(size(node.over))});
  return call(Function::multiply,
              {argument, call(Function::rsqrt, {call(Function::add, {mean, number(norm_epsilon)})})});
}

Tree AlongParts::along(const Node& node, const Tree& argument, const std::vector<Axis>& has) {
  const auto mean = [&] {
    return call(Function::divide, {reduced(Function::sum, argument, node, has), number(size(node.over))});
  };
  switch (node.function) {
    case Function::mean: return mean();
    case Function::rmsnorm: return normalized(argument, node, has);
    case Function::layernorm: return normalized(call(Function::subtract, {argument, mean()}), node, has);
    case Function::softmax: {
      const Tree largest = reduced(Function::max, argument, node, has);
      const Tree power = call(Function::exp, {call(Function::subtract, {argument, largest})});
      return call(Function::divide, {power, reduced(Function::sum, power, node, has)});
    }
    default: return reduced(node.function, argument, node, has);
  }
}

std::vector<Node> AlongParts::value(const Expression& expression, const Bindings& begins) {
  expression_ = &expression;
  const auto is_split = [&](const Node& node) { return !node.over.empty() && !letters(node.over).empty(); };
  if (std::none_of(expression.nodes.begin(), expression.nodes.end(), is_split)) return expression.nodes;
  const Spaces found = spaces(program_.tensors, expression.nodes);
  std::vector<Tree> trees;
  for (const Node& node : expression.nodes) {
    std::vector<Tree> arguments;
    for (const int argument : node.arguments) arguments.push_back(trees[static_cast<std::size_t>(argument)]);
    const bool split = is_split(node);
    if (node.kind == Node::Kind::along && split) {
      const int space = found.of[static_cast<std::size_t>(node.arguments[0])];
      trees.push_back(along(node, arguments[0], found.axes[static_cast<std::size_t>(space)]));
    } else if (node.kind == Node::Kind::size && split) {
      trees.push_back(number(size(node.over)));
    } else if (node.kind == Node::Kind::index && split && begins.contains(node.over.front().dim)) {
      const auto begin = static_cast<double>(begins.at(node.over.front().dim));
      trees.push_back(call(Function::add, {above(node, {}), number(begin)}));
    } else {
      trees.push_back(above(node, arguments));
    }
  }
  return trees.back();
}

}  // namespace ridge::ranks
