// Products of several tensors, A * B * C: each order gives the same result, and their costs are far apart, so the one
// of the fewest FLOPs is taken. A[1000, 10] * B[10, 1000] * C[1000, 10] takes 4e7 FLOPs from the left and 4e5 from the
// right. All ways to halve every subset of the factors are tried, at most 3^8 of them (Bellman; CLRS 15.2 has the case
// of a row of matrices).
#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "ridge/base/text.h"
#include "ridge/program/axes.h"
#include "ridge/program/parser.h"

namespace ridge::notation {
namespace {

constexpr std::size_t most_factors = 8;

double size_of(const Axis& axis, const Bindings& sizes) {
  return static_cast<double>(axis.named() ? sizes.at(axis.dim) : axis.literal);
}

}  // namespace

// Which subsets of the factors are multiplied first.
struct Parser::Order {
  const std::vector<Operand>& factors;
  const std::vector<Axis>& result;
  const Bindings& sizes;
  std::vector<double> flops;
  std::vector<std::size_t> left;  // of each subset: the part that is multiplied with the rest

  std::size_t all() const { return (std::size_t{1} << factors.size()) - 1; }

  // What of a subset's dimensions is needed outside of it.
  std::vector<Axis> axes(std::size_t subset) const {
    std::vector<Axis> out;
    for (std::size_t i = 0; i < factors.size(); ++i) {
      if ((subset >> i & 1) == 0) continue;
      for (const Axis& a : factors[i].axes)
        if (!one(a) && !has(out, a) && (std::has_single_bit(subset) || needed(a, subset))) out.push_back(a);
    }
    return out;
  }
  bool needed(const Axis& axis, std::size_t subset) const {
    if (has(result, axis)) return true;
    for (std::size_t i = 0; i < factors.size(); ++i)
      if ((subset >> i & 1) == 0 && has(factors[i].axes, axis)) return true;
    return false;
  }

  double product(std::size_t a, std::size_t b) const {
    std::vector<Axis> both = axes(a);
    for (const Axis& axis : axes(b))
      if (!has(both, axis)) both.push_back(axis);
    const std::vector<Axis> kept = axes(a | b);
    double points = both.size() > kept.size() ? 2 : 1;
    for (const Axis& axis : both) points *= size_of(axis, sizes);
    return points;
  }

  void choose() {
    flops.assign(all() + 1, 0);
    left.assign(all() + 1, 0);
    for (std::size_t subset = 1; subset <= all(); ++subset) {
      if (std::has_single_bit(subset)) continue;
      left[subset] = subset ^ std::bit_floor(subset);  // from the left
      flops[subset] = cost(left[subset], subset);
      for (std::size_t part = (subset - 1) & subset; part > 0; part = (part - 1) & subset)
        if ((part & subset & -subset) != 0 && cost(part, subset) < flops[subset]) {
          left[subset] = part;
          flops[subset] = cost(part, subset);
        }
    }
  }
  double cost(std::size_t part, std::size_t subset) const {
    return flops[part] + flops[subset ^ part] + product(part, subset ^ part);
  }
  double from_the_left() const {
    double sum = 0;
    for (std::size_t i = 1; i < factors.size(); ++i) sum += product((std::size_t{1} << i) - 1, std::size_t{1} << i);
    return sum;
  }
};

// Every dimension stands in two of the factors and the result at least.
bool Parser::chain_found(const std::vector<Operand>& factors, const Mention& result) {
  for (const Axis& a : result.axes) {
    const bool found = std::any_of(factors.begin(), factors.end(), [&](const Operand& o) { return has(o.axes, a); });
    if (!one(a) && !found)
      return fail(a.span, fmt::format("{} of the result is in no operand", described(a)),
                  "a dimension of the result comes from an operand");
  }
  for (const Operand& factor : factors)
    for (const Axis& a : factor.axes) {
      const auto there =
          std::count_if(factors.begin(), factors.end(), [&](const Operand& o) { return has(o.axes, a); });
      if (!one(a) && there == 1 && !has(result.axes, a))
        return fail(a.span,
                    fmt::format("{} of {} appears nowhere else; contracted dimensions must share a name", described(a),
                                factor.called),
                    "to sum over it alone give the tensor a statement of its own: sum(x over D)");
    }
  return true;
}

bool Parser::chain_sizes(const std::vector<Operand>& factors, Bindings& sizes) {
  Bindings given;
  for (const auto& [name, value] : options_.sizes)
    if (dim_index_.contains(name)) given.emplace(name, value);
  auto known = program_.bind(given);
  if (!known) {
    error_ = known.error();
    return false;
  }
  sizes = *std::move(known);
  for (const Operand& factor : factors)
    for (const Axis& a : factor.axes) {
      if (!a.mesh.empty())
        return fail(a.span, "a chain of products takes no operand that is split over devices",
                    "write the products one by one: t[A, C] = a * b, then y[A, D] = t * c");
      if (a.named() && !sizes.contains(a.dim))
        return fail(a.span, fmt::format("the best order of a chain hangs on sizes, and '{}' has none", a.dim),
                    fmt::format("dims {0} = 1024 above it, or -d {0}=1024; or write the products one by one", a.dim));
    }
  return true;
}

// The operand that a subset becomes; its statements are added.
std::optional<Operand> Parser::chain_part(const Order& order, std::size_t subset, const Mention& result) {
  if (std::has_single_bit(subset)) return order.factors[static_cast<std::size_t>(std::countr_zero(subset))];
  const auto left = chain_part(order, order.left[subset], result);
  if (!left) return std::nullopt;
  const auto right = chain_part(order, subset ^ order.left[subset], result);
  if (!right) return std::nullopt;
  const bool last = subset == order.all();
  Mention made = result;
  if (!last) {
    made.name = free_name(result.name + "2");
    made.dtype.reset();
    made.axes = order.axes(subset);
    if (made.axes.empty()) made.axes.push_back({.dim = {}, .literal = 1});
  }
  Contraction c;
  if (!contract(*left, *right, made, c)) return std::nullopt;
  if ((c.result = write_result(made, {c.left, c.right})) < 0) return std::nullopt;
  const auto name_of = [&](int t) { return program_.tensors[static_cast<std::size_t>(t)].name; };
  const std::string text =
      fmt::format("{}{} = {} * {}", made.name, notation::text(made.axes), name_of(c.left), name_of(c.right));
  const int tensor = c.result;
  program_.statements.push_back({.op = std::move(c), .text = text, .span = result.span});
  return Operand{tensor, fmt::format("'{}'", made.name), false, result.span, made.axes};
}

bool Parser::chain(const std::vector<Operand>& factors, const Mention& result) {
  if (factors.size() > most_factors)
    return fail(factors.back().span, fmt::format("expected at most {} factors in a chain, found more", most_factors),
                "give a part of it a name");
  if (!chain_found(factors, result)) return false;
  if (tensor_index_.contains(result.name)) return write_result(result, {factors[0].tensor}) >= 0;
  Bindings sizes;
  if (!chain_sizes(factors, sizes)) return false;
  Order order{factors, result.axes, sizes, {}, {}};
  order.choose();
  if (!chain_part(order, order.all(), result)) return false;
  program_.remarks.push_back(fmt::format("order of the product {}: {}, {} FLOPs; from the left {}", result.name,
                                         chain_text(order, order.all()), engineering(order.flops[order.all()], ""),
                                         engineering(order.from_the_left(), "")));
  return true;
}

std::string Parser::chain_text(const Order& order, std::size_t subset) const {
  if (std::has_single_bit(subset))
    return program_
        .tensors[static_cast<std::size_t>(order.factors[static_cast<std::size_t>(std::countr_zero(subset))].tensor)]
        .name;
  const auto part = [&](std::size_t of) {
    return std::has_single_bit(of) ? chain_text(order, of) : fmt::format("({})", chain_text(order, of));
  };
  return fmt::format("{} * {}", part(order.left[subset]), part(subset ^ order.left[subset]));
}

// A product of three tensors and more, and nothing else, of which the result lacks a dimension.
bool Parser::is_chain(const Mention& result) const {
  std::size_t tensors = 0;
  bool sums = false;
  for (const Node& node : nodes_) {
    const bool product = node.kind == Node::Kind::call && node.function == Function::multiply;
    if (node.kind != Node::Kind::tensor && !product) return false;
    if (product) continue;
    ++tensors;
    for (const Axis& a : program_.tensors[static_cast<std::size_t>(node.tensor)].axes)
      sums = sums || (!one(a) && !has(result.axes, a));
  }
  return tensors >= 3 && sums;
}

// The dimensions of a result that is not written: `A[B, D] * W[D, F]`, or what suffixes leave over.
bool Parser::leave_out(const Mention& left, const Mention& right, Mention& result) {
  std::vector<Axis> shared, kept;
  for (const Axis& a : left.axes)
    if (!one(a) && has(right.axes, a)) shared.push_back(a);
  std::vector<std::string> named;
  for (const Mention* m : {&left, &right}) {
    const Operand o{-1, m == &left ? "the left operand" : "the right operand", m->name.empty(), m->span, m->axes};
    if (m->suffix && !suffix_dims(*m->suffix, o, named)) return false;
  }
  const bool says = left.suffix || right.suffix;
  if (!says && shared.size() > 1)
    return fail(left.span,
                fmt::format("several results fit: {} and {} stand in both operands, and each may be summed or kept",
                            text(shared[0]), text(shared[1])),
                fmt::format("write the result, or what is summed: {}_{}", text(left.axes), text(shared[1])));
  const auto summed = [&](const Axis& a) {
    return has(shared, a) && (!says || std::find(named.begin(), named.end(), text(a)) != named.end());
  };
  for (const Mention* m : {&left, &right})
    for (const Axis& a : m->axes)
      if (!one(a) && !summed(a) && !has(kept, a)) kept.push_back(a);
  if (kept.empty()) kept.push_back({.dim = {}, .literal = 1});
  result.axes = std::move(kept);
  result.typed = true;
  result.span = left.span;
  return true;
}

}  // namespace ridge::notation
