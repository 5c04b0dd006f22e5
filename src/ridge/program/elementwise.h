// Products that sum nothing.
#pragma once

#include "ridge/program/program.h"

namespace ridge {

inline bool sums(const Contraction& c) { return !c.contracted.empty() || c.literal_contracted != 1; }

// What sums nothing multiplies element by element: the same as an expression.
inline Expression elementwise(const Contraction& c) {
  Expression out{c.result, {}};
  out.nodes.push_back({.kind = Node::Kind::tensor, .tensor = c.left});
  out.nodes.push_back({.kind = Node::Kind::tensor, .tensor = c.right});
  out.nodes.push_back({.kind = Node::Kind::call, .function = Function::multiply, .arguments = {0, 1}});
  return out;
}

}  // namespace ridge
