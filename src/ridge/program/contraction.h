// Contractions as expressions.
#pragma once

#include "ridge/program/program.h"

namespace ridge {

// True if the product sums over a dimension.
inline bool has_sum(const Contraction& c) { return !c.contracted.empty() || c.literal_contracted != 1; }

// Returns the expression left * right, or sum(left * right over the contracted dimensions).
inline Expression expression_of_contraction(const Contraction& c) {
  Expression out{c.result, {}};
  out.nodes.push_back({.kind = Node::Kind::tensor, .tensor = c.left});
  out.nodes.push_back({.kind = Node::Kind::tensor, .tensor = c.right});
  out.nodes.push_back({.kind = Node::Kind::call, .function = Function::multiply, .arguments = {0, 1}});
  if (!has_sum(c)) return out;
  Node sum{.kind = Node::Kind::along_dims, .function = Function::sum, .arguments = {2}};
  for (const std::string& dim : c.contracted) sum.over.push_back({.dim = dim});
  out.nodes.push_back(std::move(sum));
  return out;
}

}  // namespace ridge
