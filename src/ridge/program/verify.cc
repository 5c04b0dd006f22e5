// Which dimension is what. In A[B, D] * W[D, F] -> C[B, F], B is free on the left, F free on the right, D is summed;
// in int8[B, D] * int8[B, D, F] -> int8[B, F], B stands in all three: a batch. A dimension of one operand alone would
// have to be summed by itself, which is no product: refused. Sizes above 1 written as numbers match by their value, a
// written 1 matches nothing and needs no match.
#include <fmt/format.h>

#include <algorithm>

#include "ridge/program/axes.h"
#include "ridge/program/parser.h"

namespace ridge::notation {
namespace {

// As the statement would write it: bf16[B, D], A[B, D], y[N].
std::string as_written(const std::string& name, DType dtype, const std::vector<Axis>& axes) {
  return (name.empty() ? std::string(ridge::name(dtype)) : name) + text(axes);
}

std::vector<Axis> with(std::vector<Axis> axes, const Axis& replaced, const Axis& by) {
  std::replace(axes.begin(), axes.end(), replaced, by);
  return axes;
}

}  // namespace

// With dims G = H/8 an operand that has G takes part in a product over H: its G is called so.
void Parser::name_groups(Operand& operand, const Operand& other, const Mention& result, Contraction& out) const {
  if (out.grouped) return;
  for (Axis& a : operand.axes) {
    if (!a.named() || has(other.axes, a) || has(result.axes, a)) continue;
    const auto& value = program_.dims[dim_index_.at(a.dim)].value;
    if (!value || value->symbols().size() != 1 || value->terms().size() != 1) continue;
    const Axis whole{.dim = value->symbols()[0], .mesh = a.mesh, .span = a.span};
    const Rational part = value->terms().begin()->second;
    const bool over = value->degree(whole.dim) == 1 && part.num() == 1 && part.den() > 1;
    if (!over || has(operand.axes, whole) || !(has(other.axes, whole) || has(result.axes, whole))) continue;
    out.grouped = {operand.tensor, whole.dim, a.dim, part.den()};
    a = whole;
    return;
  }
}

bool Parser::contract(Operand left, Operand right, const Mention& result, Contraction& out) {
  if (left.tensor != right.tensor) {
    name_groups(left, right, result, out);
    name_groups(right, left, result, out);
  }
  if (!all_found(left, right, result)) return false;
  out.left = left.tensor;
  out.right = right.tensor;
  for (const Axis& a : left.axes) {
    if (one(a)) continue;
    const bool shared = has(right.axes, a), kept = has(result.axes, a);
    if (a.named())
      (kept ? shared ? out.batch : out.left_free : out.contracted).push_back(a.dim);
    else if (const auto before = out.literal_contracted;
             shared && !kept && __builtin_mul_overflow(before, a.literal, &out.literal_contracted))
      return fail(a.span,
                  fmt::format("expected summed sizes whose product is below 2^63, found {} * {}", before, a.literal),
                  "use smaller sizes");
  }
  for (const Axis& a : right.axes)
    if (a.named() && !has(left.axes, a)) out.right_free.push_back(a.dim);
  if (out.grouped && out.contracted.empty() && out.literal_contracted == 1)
    return fail(
        left.span,
        fmt::format("'{}' in the place of '{}' needs a product that sums", out.grouped->group, out.grouped->dim),
        "an expression has the same dimensions in all its operands");
  return shards(left, right, result, out);
}

// Every dimension stands in two of the three tensors at least.
bool Parser::all_found(const Operand& left, const Operand& right, const Mention& result) {
  const auto alone = [&](const Operand& o, const Operand& other) {
    return std::find_if(o.axes.begin(), o.axes.end(),
                        [&](const Axis& a) { return !one(a) && !has(other.axes, a) && !has(result.axes, a); });
  };
  const auto l = alone(left, right), r = alone(right, left);
  for (const Axis& a : result.axes) {
    if (one(a) || has(left.axes, a) || has(right.axes, a)) continue;
    const bool on_right = r != right.axes.end(), on_left = l != left.axes.end();
    const DType dtype = result.dtype.value_or(options_.dtype);
    return fail(
        a.span, fmt::format("{} of the result is in neither operand", described(a)),
        on_right || on_left
            ? fmt::format("did you mean {}?", as_written(result.name, dtype, with(result.axes, a, on_right ? *r : *l)))
            : "a dimension of the result comes from an operand");
  }
  if (r != right.axes.end()) return lonely(right, *r, l != left.axes.end() ? &*l : nullptr);
  if (l != left.axes.end()) return lonely(left, *l, nullptr);
  return true;
}

// A dimension of one operand that stands nowhere else. `partner`: one of the other operand in the same plight.
bool Parser::lonely(const Operand& operand, const Axis& axis, const Axis* partner) {
  const Tensor& t = program_.tensors[static_cast<std::size_t>(operand.tensor)];
  const std::string message = fmt::format("{} of {} appears nowhere else; contracted dimensions must share a name",
                                          described(axis), operand.called);
  if (partner) {
    return fail(axis.span, message,
                fmt::format("did you mean {}?",
                            as_written(operand.unnamed ? "" : t.name, t.dtype, with(operand.axes, axis, *partner))));
  }
  return fail(
      axis.span, message,
      fmt::format("to sum over it alone give {} a statement of its own: sum({} over {})", t.name, t.name, text(axis)));
}

// `_D` behind the brackets: every dimension that is contracted, and no other.
bool Parser::suffix_agrees(const Mention& written, const Operand& operand, const Contraction& contraction) {
  const Token& suffix = *written.suffix;
  std::vector<std::string> named;
  if (!suffix_dims(suffix, operand, named)) return false;
  const auto contracted = [&](const std::string& d) {
    return std::find(contraction.contracted.begin(), contraction.contracted.end(), d) != contraction.contracted.end();
  };
  for (const std::string& d : named)
    if (!contracted(d))
      return fail(suffix.span,
                  fmt::format("the suffix {} says that '{}' is contracted, but the result keeps it", quoted(suffix), d),
                  "a contracted dimension does not stand in the result");
  for (const std::string& d : contraction.contracted)
    if (std::find(named.begin(), named.end(), d) == named.end())
      return fail(suffix.span,
                  fmt::format("dimension '{}' is contracted too, but the suffix {} leaves it out", d, quoted(suffix)),
                  fmt::format("write {}_{}, or leave the suffix out", suffix.text, d));
  return true;
}

// _D_E names D and E; _d_ff names d_ff where the tensor has it. The longest name that fits is taken.
bool Parser::suffix_dims(const Token& suffix, const Operand& operand, std::vector<std::string>& out) {
  std::string_view rest = suffix.text;
  while (!rest.empty()) {
    rest.remove_prefix(1);  // the underscore
    std::string_view found;
    for (const Axis& a : operand.axes) {
      const bool fits =
          a.named() && rest.starts_with(a.dim) && (rest.size() == a.dim.size() || rest[a.dim.size()] == '_');
      if (fits && a.dim.size() > found.size()) found = a.dim;
    }
    if (found.empty())
      return fail(
          suffix.span,
          fmt::format("the suffix {} names no dimension of {}, {}", quoted(suffix), operand.called, text(operand.axes)),
          "it names what is contracted: int8[B, D]_D");
    out.emplace_back(found);
    rest.remove_prefix(found.size());
  }
  return true;
}

// sum(a * b over D) is the contraction a * b where both operands have what is summed and the result the rest.
bool Parser::summed_product(const Mention& result) {
  const bool form = nodes_.size() == 4 && nodes_[0].kind == Node::Kind::tensor &&
                    nodes_[1].kind == Node::Kind::tensor && nodes_[2].kind == Node::Kind::call &&
                    nodes_[2].function == Function::multiply && nodes_[3].kind == Node::Kind::along &&
                    nodes_[3].function == Function::sum;
  if (!form) return false;
  const std::vector<Axis> left = operand(0).axes, right = operand(1).axes;
  const std::vector<Axis>& summed = nodes_[3].over;
  const auto in_place = [&](const Axis& a) {
    return one(a) || (has(summed, a) ? has(left, a) && has(right, a) && !has(result.axes, a) : has(result.axes, a));
  };
  return std::all_of(left.begin(), left.end(), in_place) && std::all_of(right.begin(), right.end(), in_place) &&
         std::all_of(summed.begin(), summed.end(), in_place);
}

// A function along dimensions needs an argument that has them.
bool Parser::runs_along(const Spaces& spaces) {
  for (const Node& node : nodes_) {
    if (node.kind != Node::Kind::along) continue;
    const int space = spaces.of[static_cast<std::size_t>(node.arguments[0])];
    const std::vector<Axis>& axes = spaces.axes[static_cast<std::size_t>(space)];
    for (const Axis& a : node.over)
      if (!one(a) && !has(axes, a))
        return fail(a.span,
                    fmt::format("{} is not in what {} runs over{}{}", described(a), row(node.function).name,
                                axes.empty() ? "" : ", ", axes.empty() ? "" : text(axes)),
                    "name a dimension of its argument");
  }
  return true;
}

// Every dimension of an operand is in the result, unless it is reduced, and every one of the result in some operand.
bool Parser::verify(const Mention& result) {
  const Spaces found = spaces(program_.tensors, nodes_);
  if (!runs_along(found)) return false;
  bool any = false;
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    any = any || nodes_[i].kind == Node::Kind::tensor;
    if (found.of[i] != 0) continue;
    if (!kept(i, found, result)) return false;
  }
  if (!any)
    return fail(node_spans_.back(), "expected a tensor in the expression, found numbers only",
                "a constant needs no program");
  const auto missing = std::find_if(result.axes.begin(), result.axes.end(),
                                    [&](const Axis& a) { return !one(a) && !has(found.axes[0], a); });
  if (missing == result.axes.end()) return expression_shards(result);
  return fail(missing->span, fmt::format("{} of the result is in no operand", described(*missing)),
              "a dimension of the result comes from an operand");
}

// The dimensions that a node at the top brings are the result's.
bool Parser::kept(std::size_t node, const Spaces& found, const Mention& result) {
  const Node& n = nodes_[node];
  std::vector<Axis> axes;
  std::string called;
  if (n.kind == Node::Kind::tensor) {
    const Tensor& t = program_.tensors[static_cast<std::size_t>(n.tensor)];
    axes = t.axes;
    called = t.name;
  } else if (n.kind == Node::Kind::index || n.kind == Node::Kind::sequence) {
    axes = n.over;
    called = fmt::format("{}({})", n.kind == Node::Kind::index ? "index" : "sequence", n.over[0].dim);
  } else if (n.kind == Node::Kind::along) {
    axes = found.axes[static_cast<std::size_t>(found.of[static_cast<std::size_t>(n.arguments[0])])];
    if (reduces(n.function)) std::erase_if(axes, [&](const Axis& a) { return has(n.over, a); });
    called = fmt::format("{}(…)", row(n.function).name);
  }
  for (const Axis& a : axes) {
    if (one(a) || has(result.axes, a)) continue;
    const bool sums = n.kind == Node::Kind::tensor;
    return fail(
        node_spans_[node],
        fmt::format("{} of '{}' is not in the result {}{}", described(a), called, result.name, text(result.axes)),
        sums ? fmt::format("sum({} over {}) leaves it out; a contraction is a statement of its own, "
                           "t[N, F] = a * b",
                           called, text(a))
             : "add it to the result, or reduce over it: sum(… over D)");
  }
  return true;
}

}  // namespace ridge::notation
