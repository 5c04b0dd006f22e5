// Classifies the dimensions of products and checks those of expressions. In A[B, D] * W[D, F] -> C[B, F], B is left
// free, F is right free, D is contracted; in int8[B, D] * int8[B, D, F] -> int8[B, F], B is a batch dimension. A
// dimension of only one operand would be summed on its own, which is an error. Literal sizes above 1 match by value; a
// literal 1 matches nothing and needs no match.
#include <fmt/format.h>

#include <algorithm>

#include "ridge/base/contains.h"
#include "ridge/program/axes.h"
#include "ridge/program/parser.h"

namespace ridge::program {
namespace {

// Returns text in the notation: bf16[B, D], A[B, D], y[N].
std::string format_tensor_ref(const std::string& name, DType dtype, const std::vector<Axis>& axes) {
  return (name.empty() ? std::string(ridge::dtype_name(dtype)) : name) + format_axes(axes);
}

std::vector<Axis> replace_axis(std::vector<Axis> axes, const Axis& replaced, const Axis& replacement) {
  std::replace(axes.begin(), axes.end(), replaced, replacement);
  return axes;
}

}  // namespace

// With dims G = H/8, an operand with G in a product over H is a grouped operand; its axis G becomes H.
void Parser::match_grouped_dim(ParsedOperand& operand, const ParsedOperand& other, const TensorRef& result,
                               Contraction& out) const {
  if (out.grouped) return;
  for (Axis& a : operand.axes) {
    if (!a.is_named() || contains(other.axes, a) || contains(result.axes, a)) continue;
    const auto& value = program_.dims[dim_index_.at(a.dim)].value;
    if (!value || value->symbols().size() != 1 || value->terms().size() != 1) continue;
    const Axis grouped{.dim = value->symbols()[0], .mesh = a.mesh, .span = a.span};
    const Rational part = value->terms().begin()->second;
    const bool over = value->degree_in(grouped.dim) == 1 && part.numerator() == 1 && part.denominator() > 1;
    if (!over || contains(operand.axes, grouped) || !(contains(other.axes, grouped) || contains(result.axes, grouped)))
      continue;
    out.grouped = {operand.tensor, grouped.dim, a.dim, part.denominator()};
    a = grouped;
    return;
  }
}

bool Parser::make_contraction(ParsedOperand left, ParsedOperand right, const TensorRef& result, Contraction& out) {
  if (left.tensor != right.tensor) {
    match_grouped_dim(left, right, result, out);
    match_grouped_dim(right, left, result, out);
  }
  if (!check_axes_matched(left, right, result)) return false;
  out.left = left.tensor;
  out.right = right.tensor;
  for (const Axis& a : left.axes) {
    if (is_literal_one(a)) continue;
    const bool shared = contains(right.axes, a), kept = contains(result.axes, a);
    if (a.is_named())
      (kept ? shared ? out.batch : out.left_free : out.contracted).push_back(a.dim);
    else if (const auto before = out.literal_contracted;
             shared && !kept && __builtin_mul_overflow(before, a.literal, &out.literal_contracted))
      return report_error(
          a.span, fmt::format("expected summed sizes whose product is below 2^63, found {} * {}", before, a.literal),
          "use smaller sizes");
  }
  for (const Axis& a : right.axes)
    if (a.is_named() && !contains(left.axes, a)) out.right_free.push_back(a.dim);
  if (out.grouped && out.contracted.empty() && out.literal_contracted == 1)
    return report_error(
        left.span, fmt::format("'{}' instead of '{}' needs a product that sums", out.grouped->group, out.grouped->dim),
        "an expression has the same dimensions in all its operands");
  return check_product_sharding(left, right, result, out);
}

// Checks that each dimension is in at least two of the three tensors.
bool Parser::check_axes_matched(const ParsedOperand& left, const ParsedOperand& right, const TensorRef& result) {
  const auto alone = [&](const ParsedOperand& o, const ParsedOperand& other) {
    return std::find_if(o.axes.begin(), o.axes.end(), [&](const Axis& a) {
      return !is_literal_one(a) && !contains(other.axes, a) && !contains(result.axes, a);
    });
  };
  const auto l = alone(left, right), r = alone(right, left);
  for (const Axis& a : result.axes) {
    if (is_literal_one(a) || contains(left.axes, a) || contains(right.axes, a)) continue;
    const bool on_right = r != right.axes.end(), on_left = l != left.axes.end();
    const DType dtype = result.dtype.value_or(options_.dtype);
    return report_error(
        a.span, fmt::format("{} of the result is in neither operand", describe_axis(a)),
        on_right || on_left
            ? fmt::format("did you mean {}?",
                          format_tensor_ref(result.name, dtype, replace_axis(result.axes, a, on_right ? *r : *l)))
            : "a dimension of the result comes from an operand");
  }
  if (r != right.axes.end()) return report_unmatched_axis(right, *r, l != left.axes.end() ? &*l : nullptr);
  if (l != left.axes.end()) return report_unmatched_axis(left, *l, nullptr);
  return true;
}

// Reports a dimension of only one operand. `partner`: a dimension of only the other operand, suggested instead.
bool Parser::report_unmatched_axis(const ParsedOperand& operand, const Axis& axis, const Axis* partner) {
  const Tensor& t = program_.tensors[operand.tensor];
  const std::string message = fmt::format("{} of {} appears nowhere else; contracted dimensions must share a name",
                                          describe_axis(axis), operand.description);
  if (partner) {
    return report_error(axis.span, message,
                        fmt::format("did you mean {}?", format_tensor_ref(operand.unnamed ? "" : t.name, t.dtype,
                                                                          replace_axis(operand.axes, axis, *partner))));
  }
  return report_error(axis.span, message,
                      fmt::format("to sum over it alone give {} a statement of its own: sum({} over {})", t.name,
                                  t.name, format_axis(axis)));
}

// Checks that the suffix `_D` names exactly the contracted dimensions.
bool Parser::check_suffix(const TensorRef& written, const ParsedOperand& operand, const Contraction& contraction) {
  const Token& suffix = *written.suffix;
  std::vector<std::string> named;
  if (!parse_suffix(suffix, operand, named)) return false;
  const auto contracted = [&](const std::string& d) { return contains(contraction.contracted, d); };
  for (const std::string& d : named)
    if (!contracted(d))
      return report_error(
          suffix.span,
          fmt::format("the suffix {} says that '{}' is contracted, but the result keeps it", quote_token(suffix), d),
          "a contracted dimension is not in the result");
  for (const std::string& d : contraction.contracted)
    if (!contains(named, d))
      return report_error(
          suffix.span,
          fmt::format("dimension '{}' is contracted too, but the suffix {} leaves it out", d, quote_token(suffix)),
          fmt::format("write {}_{}, or leave the suffix out", suffix.text, d));
  return true;
}

// Parses _D_E as D and E, and _d_ff as d_ff if the tensor has it. The longest matching name is used.
bool Parser::parse_suffix(const Token& suffix, const ParsedOperand& operand, std::vector<std::string>& out) {
  std::string_view rest = suffix.text;
  while (!rest.empty()) {
    rest.remove_prefix(1);  // the underscore
    std::string_view found;
    for (const Axis& a : operand.axes) {
      const bool fits =
          a.is_named() && rest.starts_with(a.dim) && (rest.size() == a.dim.size() || rest[a.dim.size()] == '_');
      if (fits && a.dim.size() > found.size()) found = a.dim;
    }
    if (found.empty())
      return report_error(suffix.span,
                          fmt::format("the suffix {} names no dimension of {}, {}", quote_token(suffix),
                                      operand.description, format_axes(operand.axes)),
                          "it names the contracted dimensions: int8[B, D]_D");
    out.emplace_back(found);
    rest.remove_prefix(found.size());
  }
  return true;
}

// True if sum(a * b over D) is a contraction: both operands have the summed dimensions, the result all others.
bool Parser::is_summed_product(const TensorRef& result) {
  const bool has_form = nodes_.size() == 4 && nodes_[0].kind == Node::Kind::tensor &&
                        nodes_[1].kind == Node::Kind::tensor && nodes_[2].kind == Node::Kind::call &&
                        nodes_[2].function == Function::multiply && nodes_[3].kind == Node::Kind::along_dims &&
                        nodes_[3].function == Function::sum;
  if (!has_form) return false;
  const std::vector<Axis> left = operand_at_node(0).axes, right = operand_at_node(1).axes;
  const std::vector<Axis>& summed = nodes_[3].over;
  const auto in_place = [&](const Axis& a) {
    return is_literal_one(a) ||
           (contains(summed, a) ? contains(left, a) && contains(right, a) && !contains(result.axes, a)
                                : contains(result.axes, a));
  };
  return std::all_of(left.begin(), left.end(), in_place) && std::all_of(right.begin(), right.end(), in_place) &&
         std::all_of(summed.begin(), summed.end(), in_place);
}

// Checks that arguments of functions over dimensions have these.
bool Parser::check_reduced_axes(const IndexSpaces& spaces) {
  for (const Node& node : nodes_) {
    if (node.kind != Node::Kind::along_dims) continue;
    const int space = spaces.space_of_node[node.arguments[0]];
    const std::vector<Axis>& axes = spaces.axes[space];
    for (const Axis& a : node.over)
      if (!is_literal_one(a) && !contains(axes, a))
        return report_error(
            a.span,
            fmt::format("{} is not in the argument of {}{}{}", describe_axis(a), function_info(node.function).name,
                        axes.empty() ? "" : ", ", axes.empty() ? "" : format_axes(axes)),
            "name a dimension of its argument");
  }
  return true;
}

// Checks that operand dimensions are in the result or reduced, and that result dimensions are in an operand.
bool Parser::check_expression(const TensorRef& result) {
  const IndexSpaces found = find_index_spaces(program_.tensors, nodes_);
  if (!check_reduced_axes(found)) return false;
  bool any = false;
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    any = any || nodes_[i].kind == Node::Kind::tensor;
    if (found.space_of_node[i] != 0) continue;
    if (!check_node_axes(i, found, result)) return false;
  }
  if (!any)
    return report_error(node_spans_.back(), "expected a tensor in the expression, found numbers only",
                        "an expression must read a tensor");
  const auto missing = std::find_if(result.axes.begin(), result.axes.end(),
                                    [&](const Axis& a) { return !is_literal_one(a) && !contains(found.axes[0], a); });
  if (missing == result.axes.end()) return check_expression_sharding(result);
  return report_error(missing->span, fmt::format("{} of the result is in no operand", describe_axis(*missing)),
                      "a dimension of the result comes from an operand");
}

// Checks that the result has the dimensions of a node in its index space.
bool Parser::check_node_axes(std::size_t node, const IndexSpaces& found, const TensorRef& result) {
  const Node& n = nodes_[node];
  std::vector<Axis> axes;
  std::string called;
  if (n.kind == Node::Kind::tensor) {
    const Tensor& t = program_.tensors[n.tensor];
    axes = t.axes;
    called = t.name;
  } else if (n.kind == Node::Kind::index || n.kind == Node::Kind::sequence) {
    axes = n.over;
    called = fmt::format("{}({})", n.kind == Node::Kind::index ? "index" : "sequence", n.over[0].dim);
  } else if (n.kind == Node::Kind::along_dims) {
    axes = found.axes[found.space_of_node[n.arguments[0]]];
    if (is_reducing_function(n.function)) std::erase_if(axes, [&](const Axis& a) { return contains(n.over, a); });
    called = fmt::format("{}(…)", function_info(n.function).name);
  }
  for (const Axis& a : axes) {
    if (is_literal_one(a) || contains(result.axes, a)) continue;
    const bool sums = n.kind == Node::Kind::tensor;
    return report_error(node_spans_[node],
                        fmt::format("{} of '{}' is not in the result {}{}", describe_axis(a), called, result.name,
                                    format_axes(result.axes)),
                        sums ? fmt::format("sum({} over {}) leaves it out; a contraction is a statement of its own, "
                                           "t[N, F] = a * b",
                                           called, format_axis(a))
                             : "add it to the result, or reduce over it: sum(… over D)");
  }
  return true;
}

}  // namespace ridge::program
