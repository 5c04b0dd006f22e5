// Index spaces of an expression. In postfix order arguments precede their node: a backward pass assigns a space to each
// node, a forward pass collects the axes of each space.
#include <algorithm>
#include <unordered_set>

#include "ridge/base/contains.h"
#include "ridge/program/program.h"

namespace ridge {
namespace {

void add_unique_axis(std::vector<Axis>& to, const Axis& axis) {
  const bool one = !axis.is_named() && axis.literal == 1;
  if (!one && !contains(to, axis)) to.push_back(axis);
}

}  // namespace

bool is_grouped_axis(const Contraction& product, int tensor, const Axis& axis) {
  return product.grouped && product.grouped->tensor == tensor && axis.is_named() && product.grouped->group == axis.dim;
}

bool is_reducing_function(Function function) {
  return function == Function::sum || function == Function::mean || function == Function::max ||
         function == Function::min;
}

std::vector<int> statement_operands(const Statement& statement) {
  if (const auto* c = std::get_if<Contraction>(&statement.op)) return {c->left, c->right};
  std::vector<int> out;
  for (const Node& node : std::get<Expression>(statement.op).nodes)
    if (node.kind == Node::Kind::tensor) out.push_back(node.tensor);
  return out;
}

IndexSpaces find_index_spaces(const std::vector<Tensor>& tensors, const std::vector<Node>& nodes) {
  IndexSpaces out;
  out.space_of_node.resize(nodes.size());
  out.axes.resize(1);
  for (std::size_t i = nodes.size(); i-- > 0;) {
    const Node& node = nodes[i];
    int space = out.space_of_node[i];
    if (node.kind == Node::Kind::along_dims) {
      space = static_cast<int>(out.axes.size());
      out.axes.emplace_back();
    }
    for (const int argument : node.arguments) out.space_of_node[argument] = space;
  }
  std::vector<std::unordered_set<int>> seen(out.axes.size());
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const Node& node = nodes[i];
    std::vector<Axis>& space_axes = out.axes[out.space_of_node[i]];
    if (node.kind == Node::Kind::index || node.kind == Node::Kind::sequence)
      add_unique_axis(space_axes, node.over.front());
    if (node.kind == Node::Kind::tensor && seen[out.space_of_node[i]].insert(node.tensor).second)
      for (const Axis& axis : tensors[node.tensor].axes) add_unique_axis(space_axes, axis);
    if (node.kind != Node::Kind::along_dims) continue;
    for (const Axis& axis : out.axes[out.space_of_node[node.arguments[0]]])
      if (!is_reducing_function(node.function) || !contains(node.over, axis)) add_unique_axis(space_axes, axis);
  }
  return out;
}

}  // namespace ridge
