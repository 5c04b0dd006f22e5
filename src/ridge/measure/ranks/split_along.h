// Rewrites an expression with functions along split dimensions so that every function runs over the device's own shard.
// The result of a shard is a tensor of its own, which is reduced over the mesh axes that split the dimension:
//                  shard result, reduced over the mesh                     rewritten expression
//   sum, mean      t = sum(x over D), summed                               t, t / size(D)
//   max, min       t = max(x over D), maximum of all                       t
//   softmax        m = max(x over D); t = sum(exp(x - m) over D)           exp(x - m) / t
//   rmsnorm        t = sum(x * x over D)                                   x * rsqrt(t / size(D) + 1e-5)
//   layernorm      m = sum(x over D) / size(D), then the rmsnorm of x - m
#pragma once

#include <functional>
#include <vector>

#include "ridge/distributed/layout.h"
#include "ridge/program/program.h"
#include "ridge/transport/collectives.h"

namespace ridge::ranks {

// Reduction of `value` along `over` by `function` (sum, max or min).
struct Partial {
  std::vector<Node> value;
  std::vector<Axis> over, kept;
  Function function = Function::sum;
  std::string letters;  // mesh axes that split `over`
  transport::Reduction how = transport::Reduction::sum;
};

class AlongParts {
 public:
  // `reduce_partial` computes a partial reduction, reduces it over the mesh and returns the slot of the result.
  AlongParts(const Program& program, const Bindings& sizes, std::function<int(const Partial&)> bring_together);

  // Returns the rewritten nodes. `begins` has the first index of the device's shard along each split dimension.
  std::vector<Node> value(const Expression& expression, const Bindings& begins);

 private:
  using Tree = std::vector<Node>;
  Tree along(const Node& node, const Tree& argument, const std::vector<Axis>& has);
  Tree reduced(Function function, const Tree& argument, const Node& node, const std::vector<Axis>& has);
  Tree normalized(const Tree& argument, const Node& node, const std::vector<Axis>& has);
  double size(const std::vector<Axis>& over) const;
  std::string letters(const std::vector<Axis>& over) const;

  const Program& program_;
  const Bindings& sizes_;
  std::function<int(const Partial&)> bring_together_;
  const Expression* expression_ = nullptr;
};

}  // namespace ridge::ranks
