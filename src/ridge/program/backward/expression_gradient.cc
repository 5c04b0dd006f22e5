#include "ridge/program/backward/expression_gradient.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <optional>

#include "ridge/base/contains.h"
#include "ridge/program/parser.h"

namespace ridge::program {
namespace {

// The gradient of a node: text, and the axes that it has.
struct NodeGradient {
  std::string text;
  std::vector<Axis> axes;
};

void unite_axes(std::vector<Axis>& axes, const std::vector<Axis>& more) {
  for (const Axis& axis : more)
    if (!contains(axes, axis)) axes.push_back(axis);
}

// Returns the text as a factor: as it is if it is a name, a number or one call, else in parentheses.
std::string make_factor(const std::string& text) {
  const auto is_word = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '\'' || c == '.';
  };
  std::size_t i = 0;
  while (i < text.size() && is_word(text[i])) ++i;
  if (i == text.size()) return text;
  if (i == 0 || text[i] != '(' || text.back() != ')') return fmt::format("({})", text);
  int depth = 0;
  for (std::size_t k = i; k < text.size(); ++k) {
    depth += text[k] == '(' ? 1 : text[k] == ')' ? -1 : 0;
    if (depth == 0 && k + 1 < text.size()) return fmt::format("({})", text);
  }
  return text;
}

// Visits the nodes of an expression from its result to its operands.
class ExpressionBackward {
 public:
  ExpressionBackward(const Program& program, const Expression& expression, GradientNames& names)
      : program_(program), expression_(expression), nodes_(expression.nodes), names_(names) {
    for (std::size_t i = 0; i < nodes_.size(); ++i) measure_node(i);
    gradients_.resize(nodes_.size());
    named_.resize(nodes_.size());
    named_.back() = program.tensors[expression.result].name;
  }

  Result<std::vector<GradientTerm>> write(const std::string& gradient) {
    if (is_constant_.back()) return std::move(out_);
    for (std::size_t i = 0; i < nodes_.size(); ++i)
      if (is_norm(i) && !is_constant_[i]) add_norm_tensors(i);
    gradients_.back() = NodeGradient{gradient, program_.tensors[expression_.result].axes};
    for (std::size_t i = nodes_.size(); i-- > 0;)
      if (gradients_[i] && !is_constant_[i]) RIDGE_TRY_STATUS(visit(i));
    add_operand_terms();
    return std::move(out_);
  }

 private:
  // Finds the axes of a node, and whether it depends on an operand with a gradient.
  void measure_node(std::size_t i) {
    const Node& node = nodes_[i];
    std::vector<Axis> axes;
    bool is_constant = true;
    if (node.kind == Node::Kind::tensor) {
      axes = program_.tensors[node.tensor].axes;
      is_constant = dtype_info(program_.tensors[node.tensor].dtype).is_integer;
    }
    if (node.kind == Node::Kind::index) axes = node.over;
    for (const int argument : node.arguments) {
      unite_axes(axes, axes_[argument]);
      is_constant &= is_constant_[argument];
    }
    if (node.kind == Node::Kind::along_dims && is_reducing_function(node.function))
      std::erase_if(axes, [&](const Axis& axis) { return contains(node.over, axis); });
    if (node.kind == Node::Kind::call && function_info(node.function).syntax == FunctionSyntax::comparison)
      is_constant = true;  // its derivative is 0
    axes_.push_back(std::move(axes));
    is_constant_.push_back(is_constant);
  }

  std::string text(std::size_t node) const {
    return named_[node].empty() ? print_subexpression(program_, expression_, node) : named_[node];
  }
  std::string factor(std::size_t node) const { return make_factor(text(node)); }

  // Adds a tensor with this content; returns its name.
  std::string add_tensor(const std::string& name, const std::vector<Axis>& axes, const std::string& content) {
    std::string unique = names_.make_unique(name);
    out_.push_back({.name = unique, .axes = axes, .text = content});
    return unique;
  }
  // Returns the name of a tensor with the node's value.
  std::string name_node(std::size_t node, const std::string& name) {
    if (!named_[node].empty()) return named_[node];
    if (nodes_[node].kind == Node::Kind::tensor) return text(node);
    return named_[node] = add_tensor(name, axes_[node], text(node));
  }
  std::string name_gradient(NodeGradient& gradient, const std::string& name) {
    if (!names_.has(gradient.text)) gradient.text = add_tensor(name, gradient.axes, gradient.text);
    return gradient.text;
  }
  std::string result_name() const { return program_.tensors[expression_.result].name; }

  void pass(int node, std::string gradient, std::vector<Axis> axes) {
    if (!is_constant_[node]) gradients_[node] = NodeGradient{std::move(gradient), std::move(axes)};
  }
  // Passes the gradient times a factor to an argument; the factor has the axes of the node `like`.
  void pass_product(int node, const NodeGradient& gradient, const std::string& multiplier, int like) {
    std::vector<Axis> axes = gradient.axes;
    unite_axes(axes, axes_[like]);
    pass(node, fmt::format("{} * {}", make_factor(gradient.text), multiplier), axes);
  }

  Status visit(std::size_t i) {
    const Node& node = nodes_[i];
    if (node.kind == Node::Kind::call) return visit_call(i);
    if (node.kind == Node::Kind::along_dims) return visit_along(i);
    return Done{};
  }

  Status visit_call(std::size_t i) {
    const Node& node = nodes_[i];
    const NodeGradient g = *gradients_[i];
    const std::vector<int>& a = node.arguments;
    const auto pass_if = [&](int argument, const std::string& condition, bool otherwise) {
      std::vector<Axis> axes = g.axes;
      unite_axes(axes, axes_[i]);
      pass(argument, fmt::format("where({}, {}, {})", condition, otherwise ? "0" : g.text, otherwise ? g.text : "0"),
           axes);
    };
    if (node.repeat > 1) return fail(node);
    switch (node.function) {
      case Function::add:
        for (const int argument : a) pass(argument, g.text, g.axes);
        return Done{};
      case Function::subtract:
        pass(a[0], g.text, g.axes);
        pass(a[1], "-" + make_factor(g.text), g.axes);
        return Done{};
      case Function::negate: pass(a[0], "-" + make_factor(g.text), g.axes); return Done{};
      case Function::multiply:
        pass_product(a[0], g, factor(a[1]), a[1]);
        pass_product(a[1], g, factor(a[0]), a[0]);
        return Done{};
      case Function::divide: {
        std::vector<Axis> axes = g.axes;
        unite_axes(axes, axes_[i]);
        pass(a[0], fmt::format("{} / {}", make_factor(g.text), factor(a[1])), axes);
        pass(a[1], fmt::format("-{} * {} / {}", make_factor(g.text), factor(i), factor(a[1])), axes);
        return Done{};
      }
      case Function::where:
        // A softmax is 0 where its operand is -infinity, so that its gradient is, too.
        if (text(a[2]) == "-inf" && static_cast<int>(i) == softmax_operand_) {
          pass(a[1], g.text, g.axes);
          return Done{};
        }
        pass_if(a[1], text(a[0]), false);
        pass_if(a[2], text(a[0]), true);
        return Done{};
      case Function::min:
        pass_if(a[0], fmt::format("{} <= {}", text(a[0]), text(a[1])), false);
        pass_if(a[1], fmt::format("{} <= {}", text(a[0]), text(a[1])), true);
        return Done{};
      case Function::max:
        pass_if(a[0], fmt::format("{} >= {}", text(a[0]), text(a[1])), false);
        pass_if(a[1], fmt::format("{} >= {}", text(a[0]), text(a[1])), true);
        return Done{};
      case Function::clamp:
        pass_if(a[0], fmt::format("({0} >= {1}) * ({0} <= {2})", factor(a[0]), text(a[1]), text(a[2])), false);
        return Done{};
      default: break;
    }
    return visit_unary(i);
  }

  Status visit_unary(std::size_t i) {
    const Node& node = nodes_[i];
    const NodeGradient g = *gradients_[i];
    const int argument = node.arguments[0];
    const std::string suffix = "_" + result_name();
    const auto name_argument = [&] { return name_node(argument, "z" + suffix); };
    const auto times = [&](const std::string& derivative) { pass_product(argument, g, derivative, argument); };
    switch (node.function) {
      case Function::exp: times(factor(i)); return Done{};
      case Function::log: times(fmt::format("(1 / {})", factor(argument))); return Done{};
      case Function::sqrt: times(fmt::format("(0.5 / {})", factor(i))); return Done{};
      case Function::rsqrt: times(fmt::format("(-0.5) * {} / {}", factor(i), factor(argument))); return Done{};
      case Function::tanh: {
        const std::string t = name_node(i, "t" + suffix);
        times(fmt::format("(1 - {0} * {0})", t));
        return Done{};
      }
      case Function::sigmoid: {
        const std::string s = name_node(i, "sig" + suffix);
        times(fmt::format("{0} * (1 - {0})", s));
        return Done{};
      }
      case Function::softplus:
        times(fmt::format("sigmoid({})", text(static_cast<std::size_t>(argument))));
        return Done{};
      case Function::relu: times(fmt::format("({} > 0)", factor(argument))); return Done{};
      case Function::silu: {
        const std::string z = name_argument();
        const std::string s = add_tensor("sig" + suffix, axes_[i], fmt::format("sigmoid({})", z));
        times(fmt::format("{0} * (1 + {1} * (1 - {0}))", s, z));
        return Done{};
      }
      case Function::gelu: {
        const std::string z = name_argument();
        times(fmt::format(
            "(0.5 * (1 + erf(0.7071067811865476 * {0})) + {0} * 0.3989422804014327 * exp(-0.5 * {0} * {0}))", z));
        return Done{};
      }
      case Function::gelu_tanh: {
        const std::string z = name_argument();
        const std::string t = add_tensor(
            "t" + suffix, axes_[i], fmt::format("tanh(0.7978845608028654 * ({0} + 0.044715 * {0} * {0} * {0}))", z));
        times(fmt::format("(0.5 * (1 + {1}) + 0.3989422804014327 * {0} * (1 - {1} * {1}) * (1 + 0.134145 * {0} * {0}))",
                          z, t));
        return Done{};
      }
      default: return fail(node);
    }
  }

  Status visit_along(std::size_t i) {
    const Node& node = nodes_[i];
    NodeGradient g = *gradients_[i];
    const int argument = node.arguments[0];
    const std::string over = format_over(node);
    if (is_reducing_function(node.function)) {
      std::string sum = reduce(g, axes_[i]);
      if (node.function == Function::mean)
        for (const Axis& axis : node.over) sum = fmt::format("{} / size({})", make_factor(sum), axis.dim);
      else if (node.function != Function::sum)
        return fail(node);
      pass(argument, sum, axes_[i]);
      return Done{};
    }
    const std::string suffix = "_" + result_name();
    if (node.function == Function::softmax) {
      softmax_operand_ = argument;
      const std::string p = name_node(i, "p" + suffix), d = name_gradient(g, "dp" + suffix);
      pass(argument, fmt::format("{0} * ({1} - sum({0} * {1} over {2}))", p, d, over), g.axes);
      return Done{};
    }
    if (!is_norm(i)) return fail(node);
    const std::string d = name_gradient(g, "dn" + suffix);
    const std::string center = node.function == Function::layernorm ? fmt::format(" - mean({} over {})", d, over) : "";
    pass(argument,
         fmt::format("{0} * ({1}{2} - {3} * mean({1} * {3} over {4}))", inverse_deviations_[i], d, center, named_[i],
                     over),
         g.axes);
    return Done{};
  }

  static std::string format_over(const Node& node) {
    std::string over;
    for (const Axis& axis : node.over) over += (over.empty() ? "" : ", ") + format_axis(axis);
    return over;
  }

  bool is_norm(std::size_t i) const {
    const Function function = nodes_[i].function;
    return nodes_[i].kind == Node::Kind::along_dims &&
           (function == Function::rmsnorm || function == Function::layernorm);
  }

  // Adds the norm of a node and the factor by which it scales its rows.
  void add_norm_tensors(std::size_t i) {
    const Node& node = nodes_[i];
    const std::string suffix = "_" + result_name(), over = format_over(node);
    std::string x = name_node(node.arguments[0], "z" + suffix);
    if (node.function == Function::layernorm)
      x = add_tensor("c" + suffix, axes_[i], fmt::format("{0} - mean({0} over {1})", x, over));
    std::vector<Axis> rows = axes_[i];
    std::erase_if(rows, [&](const Axis& axis) { return contains(node.over, axis); });
    const std::string r =
        add_tensor("r" + suffix, rows, fmt::format("rsqrt(mean({0} * {0} over {1}) + {2})", x, over, norm_epsilon));
    inverse_deviations_[i] = r;
    if (named_[i].empty()) named_[i] = add_tensor("n" + suffix, axes_[i], fmt::format("{} * {}", x, r));
  }

  // Returns the gradient summed over the axes that `axes` lack.
  static std::string reduce(const NodeGradient& gradient, const std::vector<Axis>& axes) {
    std::string over;
    for (const Axis& axis : gradient.axes)
      if (!contains(axes, axis)) over += (over.empty() ? "" : ", ") + format_axis(axis);
    return over.empty() ? gradient.text : fmt::format("sum({} over {})", gradient.text, over);
  }

  // Adds one term for each operand: the sum over the nodes that read it. Products with nodes that were named later are
  // written with their names.
  void add_operand_terms() {
    std::vector<int> order;
    std::map<int, NodeGradient> sums;
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      if (nodes_[i].kind != Node::Kind::tensor || !gradients_[i]) continue;
      const int tensor = nodes_[i].tensor;
      const std::vector<Axis>& axes = program_.tensors[tensor].axes;
      std::vector<Axis> kept = gradients_[i]->axes;
      std::erase_if(kept, [&](const Axis& axis) { return !contains(axes, axis); });
      const std::string term = reduce(*gradients_[i], axes);
      const auto [sum, is_new] = sums.try_emplace(tensor, NodeGradient{term, kept});
      if (is_new) {
        order.push_back(tensor);
        continue;
      }
      sum->second.text += " + " + term;
      unite_axes(sum->second.axes, kept);
    }
    for (const int tensor : order)
      out_.push_back({.tensor = tensor, .text = repeat(sums[tensor], program_.tensors[tensor].axes)});
  }

  // Returns the gradient of an operand with these axes. Along an axis of a sum, all elements have the sum's gradient.
  // An axis of a result comes from an operand, so that a comparison that always holds repeats it: dy * (index(K) >= 0).
  static std::string repeat(const NodeGradient& gradient, const std::vector<Axis>& axes) {
    std::string out = gradient.text;
    bool is_repeated = false;
    for (const Axis& axis : axes) {
      if (contains(gradient.axes, axis)) continue;
      out = fmt::format("{} * (index({}) >= 0)", is_repeated ? out : make_factor(out), format_axis(axis));
      is_repeated = true;
    }
    return out;
  }

  static Error fail(const Node& node) {
    return input_error(fmt::format("no gradient of {} is known", function_info(node.function).name));
  }

  const Program& program_;
  const Expression& expression_;
  const std::vector<Node>& nodes_;
  GradientNames& names_;
  std::vector<std::vector<Axis>> axes_;  // Axes of each node
  std::vector<bool> is_constant_;        // True if a node has no gradient
  std::vector<std::optional<NodeGradient>> gradients_;
  std::vector<std::string> named_;                         // Names of tensors with the values of nodes
  std::map<std::size_t, std::string> inverse_deviations_;  // Names of 1 / sqrt(mean x^2 + 1e-5) of norms
  int softmax_operand_ = -1;                               // Operand of the softmax that was visited last
  std::vector<GradientTerm> out_;
};

}  // namespace

GradientNames::GradientNames(const Program& program) {
  for (const Tensor& tensor : program.tensors) used_.insert(tensor.name);
  for (const Dimension& dim : program.dims) used_.insert(dim.name);
  for (const StackedInput& stack : program.stacks) used_.insert(stack.name);
}

std::string GradientNames::make_unique(std::string name) {
  while (used_.contains(name)) name += "'";
  used_.insert(name);
  return name;
}

Result<std::vector<GradientTerm>> write_expression_gradient(const Program& program, const Expression& expression,
                                                            const std::string& gradient, GradientNames& names) {
  return ExpressionBackward(program, expression, names).write(gradient);
}

}  // namespace ridge::program
