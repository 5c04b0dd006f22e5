// The index spaces of an expression. In a postfix list a node's arguments stand before it, so one walk from the back
// gives every node its space, and one from the front collects what each space's operands have.
#include <algorithm>
#include <unordered_set>

#include "ridge/program/program.h"

namespace ridge {
namespace {

void add(std::vector<Axis>& to, const Axis& axis) {
  const bool one = !axis.named() && axis.literal == 1;
  if (!one && std::find(to.begin(), to.end(), axis) == to.end()) to.push_back(axis);
}

}  // namespace

bool is_group(const Contraction& product, int tensor, const Axis& axis) {
  return product.grouped && product.grouped->tensor == tensor && axis.named() && product.grouped->group == axis.dim;
}

bool reduces(Function function) {
  return function == Function::sum || function == Function::mean || function == Function::max ||
         function == Function::min;
}

std::vector<int> operands(const Statement& statement) {
  if (const auto* c = std::get_if<Contraction>(&statement.op)) return {c->left, c->right};
  std::vector<int> out;
  for (const Node& node : std::get<Expression>(statement.op).nodes)
    if (node.kind == Node::Kind::tensor) out.push_back(node.tensor);
  return out;
}

Spaces spaces(const std::vector<Tensor>& tensors, const std::vector<Node>& nodes) {
  Spaces out;
  out.of.resize(nodes.size());
  out.axes.resize(1);
  for (std::size_t i = nodes.size(); i-- > 0;) {
    const Node& node = nodes[i];
    int space = out.of[i];
    if (node.kind == Node::Kind::along) {
      space = static_cast<int>(out.axes.size());
      out.axes.emplace_back();
    }
    for (const int argument : node.arguments) out.of[static_cast<std::size_t>(argument)] = space;
  }
  std::vector<std::unordered_set<int>> seen(out.axes.size());
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const Node& node = nodes[i];
    std::vector<Axis>& here = out.axes[static_cast<std::size_t>(out.of[i])];
    if (node.kind == Node::Kind::index || node.kind == Node::Kind::sequence) add(here, node.over.front());
    if (node.kind == Node::Kind::tensor && seen[static_cast<std::size_t>(out.of[i])].insert(node.tensor).second)
      for (const Axis& axis : tensors[static_cast<std::size_t>(node.tensor)].axes) add(here, axis);
    if (node.kind != Node::Kind::along) continue;
    for (const Axis& axis : out.axes[static_cast<std::size_t>(out.of[static_cast<std::size_t>(node.arguments[0])])])
      if (!reduces(node.function) || std::find(node.over.begin(), node.over.end(), axis) == node.over.end())
        add(here, axis);
  }
  return out;
}

}  // namespace ridge
