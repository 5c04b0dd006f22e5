// Products that sum nothing.
#pragma once

#include "ridge/program/program.h"

namespace ridge {

inline bool sums(const Contraction& c) { return !c.contracted.empty() || c.literal_contracted != 1; }

// A product element by element, and its sum, as an expression.
inline Expression elementwise(const Contraction& c) {
  Expression out{c.result, {}};
  out.nodes.push_back({.kind = Node::Kind::tensor, .tensor = c.left});
  out.nodes.push_back({.kind = Node::Kind::tensor, .tensor = c.right});
  out.nodes.push_back({.kind = Node::Kind::call, .function = Function::multiply, .arguments = {0, 1}});
  if (!sums(c)) return out;
  Node sum{.kind = Node::Kind::along, .function = Function::sum, .arguments = {2}};
  for (const std::string& dim : c.contracted) sum.over.push_back({.dim = dim});
  out.nodes.push_back(std::move(sum));
  return out;
}

}  // namespace ridge
