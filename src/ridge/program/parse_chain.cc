// Chooses the order of a product of several tensors, A * B * C, with the fewest FLOPs: A[1000, 10] * B[10, 1000] *
// C[1000, 10] takes 4e7 FLOPs from the left and 4e5 from the right. Dynamic programming over all splits of all subsets
// of the factors, at most 3^8 (Bellman; CLRS 15.2 treats chains of matrices).
#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "ridge/base/contains.h"
#include "ridge/base/string_util.h"
#include "ridge/program/axes.h"
#include "ridge/program/parser.h"

namespace ridge::program {
namespace {

constexpr std::size_t max_factors = 8;

double axis_size(const Axis& axis, const Bindings& sizes) {
  return static_cast<double>(axis.is_named() ? sizes.at(axis.dim) : axis.literal);
}

}  // namespace

// Dynamic program over subsets of the factors, as bit masks.
struct Parser::ChainOrder {
  const std::vector<ParsedOperand>& factors;
  const std::vector<Axis>& result;
  const Bindings& sizes;
  std::vector<double> flops;
  std::vector<std::size_t> left_subset;  // left factors of the best split of each subset

  std::size_t all_factors() const { return (std::size_t{1} << factors.size()) - 1; }

  // Returns the axes of the product of a subset: those in the result or in other factors.
  std::vector<Axis> result_axes(std::size_t subset) const {
    std::vector<Axis> out;
    for (std::size_t i = 0; i < factors.size(); ++i) {
      if ((subset >> i & 1) == 0) continue;
      for (const Axis& a : factors[i].axes)
        if (!is_literal_one(a) && !contains(out, a) && (std::has_single_bit(subset) || is_needed(a, subset)))
          out.push_back(a);
    }
    return out;
  }
  bool is_needed(const Axis& axis, std::size_t subset) const {
    if (contains(result, axis)) return true;
    for (std::size_t i = 0; i < factors.size(); ++i)
      if ((subset >> i & 1) == 0 && contains(factors[i].axes, axis)) return true;
    return false;
  }

  double product_flops(std::size_t a, std::size_t b) const {
    std::vector<Axis> both = result_axes(a);
    for (const Axis& axis : result_axes(b))
      if (!contains(both, axis)) both.push_back(axis);
    const std::vector<Axis> kept = result_axes(a | b);
    double points = both.size() > kept.size() ? 2 : 1;
    for (const Axis& axis : both) points *= axis_size(axis, sizes);
    return points;
  }

  void choose_splits() {
    flops.assign(all_factors() + 1, 0);
    left_subset.assign(all_factors() + 1, 0);
    for (std::size_t subset = 1; subset <= all_factors(); ++subset) {
      if (std::has_single_bit(subset)) continue;
      left_subset[subset] = subset ^ std::bit_floor(subset);  // order from left to right
      flops[subset] = split_flops(left_subset[subset], subset);
      for (std::size_t part = (subset - 1) & subset; part > 0; part = (part - 1) & subset)
        if ((part & subset & -subset) != 0 && split_flops(part, subset) < flops[subset]) {
          left_subset[subset] = part;
          flops[subset] = split_flops(part, subset);
        }
    }
  }
  double split_flops(std::size_t part, std::size_t subset) const {
    return flops[part] + flops[subset ^ part] + product_flops(part, subset ^ part);
  }
  double left_to_right_flops() const {
    double sum = 0;
    for (std::size_t i = 1; i < factors.size(); ++i)
      sum += product_flops((std::size_t{1} << i) - 1, std::size_t{1} << i);
    return sum;
  }
};

// Checks that each dimension is in at least two of the factors and the result.
bool Parser::check_chain_axes(const std::vector<ParsedOperand>& factors, const TensorRef& result) {
  for (const Axis& a : result.axes) {
    const bool found =
        std::any_of(factors.begin(), factors.end(), [&](const ParsedOperand& o) { return contains(o.axes, a); });
    if (!is_literal_one(a) && !found)
      return report_error(a.span, fmt::format("{} of the result is in no operand", describe_axis(a)),
                          "a dimension of the result comes from an operand");
  }
  for (const ParsedOperand& factor : factors)
    for (const Axis& a : factor.axes) {
      const auto uses =
          std::count_if(factors.begin(), factors.end(), [&](const ParsedOperand& o) { return contains(o.axes, a); });
      if (!is_literal_one(a) && uses == 1 && !contains(result.axes, a))
        return report_error(a.span,
                            fmt::format("{} of {} appears nowhere else; contracted dimensions must share a name",
                                        describe_axis(a), factor.description),
                            "to sum over it alone give the tensor a statement of its own: sum(x over D)");
    }
  return true;
}

bool Parser::bind_chain_sizes(const std::vector<ParsedOperand>& factors, Bindings& sizes) {
  Bindings given;
  for (const auto& [name, value] : options_.sizes)
    if (dim_index_.contains(name)) given.emplace(name, value);
  auto known = program_.bind_sizes(given);
  if (!known) {
    error_ = known.error();
    return false;
  }
  sizes = *std::move(known);
  for (const ParsedOperand& factor : factors)
    for (const Axis& a : factor.axes) {
      if (!a.mesh.empty())
        return report_error(a.span, "a chain of products takes no operand that is split over devices",
                            "write the products one by one: t[A, C] = a * b, then y[A, D] = t * c");
      if (a.is_named() && !sizes.contains(a.dim))
        return report_error(
            a.span, fmt::format("the best order of a chain depends on sizes, and '{}' has none", a.dim),
            fmt::format("dims {0} = 1024 above it, or -d {0}=1024; or write the products one by one", a.dim));
    }
  return true;
}

// Adds the statements that multiply a subset; returns their result as an operand.
std::optional<ParsedOperand> Parser::add_chain_products(const ChainOrder& order, std::size_t subset,
                                                        const TensorRef& result) {
  if (std::has_single_bit(subset)) return order.factors[std::countr_zero(subset)];
  const auto left = add_chain_products(order, order.left_subset[subset], result);
  if (!left) return std::nullopt;
  const auto right = add_chain_products(order, subset ^ order.left_subset[subset], result);
  if (!right) return std::nullopt;
  const bool last = subset == order.all_factors();
  TensorRef made = result;
  if (!last) {
    made.name = unused_name(result.name + "2");
    made.dtype.reset();
    made.axes = order.result_axes(subset);
    if (made.axes.empty()) made.axes.push_back({.dim = {}, .literal = 1});
  }
  Contraction c;
  if (!make_contraction(*left, *right, made, c)) return std::nullopt;
  if ((c.result = declare_result(made, {c.left, c.right}, ResultKind::product)) < 0) return std::nullopt;
  const auto name_of = [&](int t) { return program_.tensors[t].name; };
  const std::string text =
      fmt::format("{}{} = {} * {}", made.name, program::format_axes(made.axes), name_of(c.left), name_of(c.right));
  const int tensor = c.result;
  program_.statements.push_back({.op = std::move(c), .text = text, .span = result.span});
  return ParsedOperand{tensor, fmt::format("'{}'", made.name), false, result.span, made.axes};
}

bool Parser::add_chain(const std::vector<ParsedOperand>& factors, const TensorRef& result) {
  if (factors.size() > max_factors)
    return report_error(factors.back().span,
                        fmt::format("expected at most {} factors in a chain, found more", max_factors),
                        "give a part of it a name");
  if (!check_chain_axes(factors, result)) return false;
  if (tensor_index_.contains(result.name)) return declare_result(result, {factors[0].tensor}) >= 0;
  Bindings sizes;
  if (!bind_chain_sizes(factors, sizes)) return false;
  ChainOrder order{factors, result.axes, sizes, {}, {}};
  order.choose_splits();
  if (!add_chain_products(order, order.all_factors(), result)) return false;
  program_.remarks.push_back(fmt::format(
      "order of the product {}: {}, {} FLOPs; from the left {}", result.name, format_chain(order, order.all_factors()),
      format_with_prefix(order.flops[order.all_factors()], ""), format_with_prefix(order.left_to_right_flops(), "")));
  return true;
}

std::string Parser::format_chain(const ChainOrder& order, std::size_t subset) const {
  if (std::has_single_bit(subset)) return program_.tensors[order.factors[std::countr_zero(subset)].tensor].name;
  const auto part = [&](std::size_t of) {
    return std::has_single_bit(of) ? format_chain(order, of) : fmt::format("({})", format_chain(order, of));
  };
  return fmt::format("{} * {}", part(order.left_subset[subset]), part(subset ^ order.left_subset[subset]));
}

// True if the expression is a product of at least three tensors with a sum over a dimension.
bool Parser::is_product_chain(const TensorRef& result) const {
  std::size_t tensors = 0;
  bool sums = false;
  for (const Node& node : nodes_) {
    const bool product = node.kind == Node::Kind::call && node.function == Function::multiply;
    if (node.kind != Node::Kind::tensor && !product) return false;
    if (product) continue;
    ++tensors;
    for (const Axis& a : program_.tensors[node.tensor].axes)
      sums = sums || (!is_literal_one(a) && !contains(result.axes, a));
  }
  return tensors >= 3 && sums;
}

// Infers the axes of a result that is omitted: `A[B, D] * W[D, F]`. Suffixes name the contracted dimensions.
bool Parser::infer_result_axes(const TensorRef& left, const TensorRef& right, TensorRef& result) {
  std::vector<Axis> shared, kept;
  for (const Axis& a : left.axes)
    if (!is_literal_one(a) && contains(right.axes, a)) shared.push_back(a);
  std::vector<std::string> named;
  for (const TensorRef* m : {&left, &right}) {
    const ParsedOperand o{-1, m == &left ? "the left operand" : "the right operand", m->name.empty(), m->span, m->axes};
    if (m->suffix && !parse_suffix(*m->suffix, o, named)) return false;
  }
  const bool has_suffix = left.suffix || right.suffix;
  if (!has_suffix && shared.size() > 1)
    return report_error(
        left.span,
        fmt::format("the result is ambiguous: {} and {} are in both operands, and each may be summed or kept",
                    format_axis(shared[0]), format_axis(shared[1])),
        fmt::format("write the result, or the summed dimension: {}_{}", format_axes(left.axes),
                    format_axis(shared[1])));
  const auto summed = [&](const Axis& a) {
    return contains(shared, a) && (!has_suffix || contains(named, format_axis(a)));
  };
  for (const TensorRef* m : {&left, &right})
    for (const Axis& a : m->axes)
      if (!is_literal_one(a) && !summed(a) && !contains(kept, a)) kept.push_back(a);
  if (kept.empty()) kept.push_back({.dim = {}, .literal = 1});
  result.axes = std::move(kept);
  result.has_axes = true;
  result.span = left.span;
  return true;
}

}  // namespace ridge::program
