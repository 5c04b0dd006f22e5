// An expression whose functions along dimensions run over split ones, as several that run over a device's own part
// alone. What a device's part comes to is a tensor of its own, brought together over the mesh axes that split it:
//   sum, mean      t = sum(x over D), added up                             t, t / size(D)
//   max, min       t = max(x over D), the largest of all                   t
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

// `value` over the axes that it has, reduced along `over` by `function` (sum, max or min).
struct Partial {
  std::vector<Node> value;
  std::vector<Axis> over, kept;
  Function function = Function::sum;
  std::string letters;  // the mesh axes that split what it runs over
  transport::Reduction how = transport::Reduction::sum;
};

class AlongParts {
 public:
  // `bring_together` makes a Partial and gives the tensor of the program that then holds it.
  AlongParts(const Program& program, const Bindings& sizes, std::function<int(const Partial&)> bring_together);

  // The expression's value, without such functions. `begins`: where the device's part of a split dimension begins.
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
