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
struct PartialReduction {
  std::vector<Node> value;
  std::vector<Axis> over, kept_axes;
  Function function = Function::sum;
  std::string mesh_axes;  // mesh axes that split `over`
  transport::ReduceOp reduce_op = transport::ReduceOp::sum;
};

class ReductionSplitter {
 public:
  // `reduce_partial` computes a partial reduction, reduces it over the mesh and returns the slot of the result.
  ReductionSplitter(const Program& program, const Bindings& sizes,
                    std::function<int(const PartialReduction&)> reduce_partial);

  // Returns the rewritten nodes. `begins` has the first index of the device's shard along each split dimension.
  std::vector<Node> split_reductions(const Expression& expression, const Bindings& begins);

 private:
  using NodeList = std::vector<Node>;
  NodeList split_reduction(const Node& node, const NodeList& argument, const std::vector<Axis>& axes);
  NodeList add_reduction(Function function, const NodeList& argument, const Node& node, const std::vector<Axis>& axes);
  NodeList split_rmsnorm(const NodeList& argument, const Node& node, const std::vector<Axis>& axes);
  double element_count(const std::vector<Axis>& over) const;
  // Returns the mesh axes that split these dimensions.
  std::string mesh_axes_splitting(const std::vector<Axis>& over) const;

  const Program& program_;
  const Bindings& sizes_;
  std::function<int(const PartialReduction&)> reduce_partial_;
  const Expression* expression_ = nullptr;
};

}  // namespace ridge::ranks
