#include "ridge/plan/attention/terms.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "ridge/base/function.h"
#include "ridge/program/contraction.h"

namespace ridge {
namespace {

using AttnTerm = AttentionTerm;
using TermKind = AttnTerm::TermKind;
using TermBand = AttnTerm::TermBand;

constexpr std::int64_t unbounded = ops::AttentionProblem::unbounded;
constexpr double infinity = std::numeric_limits<double>::infinity();

// Returns the intersection of two bands; nullopt if their lengths differ or if a limit depends on one in only one band.
std::optional<TermBand> intersect_bands(const TermBand& a, const TermBand& b) {
  if (a.lengths_tensor >= 0 && b.lengths_tensor >= 0 && a.lengths_tensor != b.lengths_tensor) return std::nullopt;
  const auto agree = [](std::int64_t x, bool x_from_length, std::int64_t y, bool y_from_length, std::int64_t unset) {
    return x == unset || y == unset || x_from_length == y_from_length;
  };
  if (!agree(a.low, a.low_from_length, b.low, b.low_from_length, -unbounded) ||
      !agree(a.high, a.high_from_length, b.high, b.high_from_length, unbounded))
    return std::nullopt;
  return TermBand{std::max(a.low, b.low),
                  std::min(a.high, b.high),
                  std::min(a.length_offset, b.length_offset),
                  a.low_from_length || b.low_from_length,
                  a.high_from_length || b.high_from_length,
                  std::max(a.lengths_tensor, b.lengths_tensor),
                  a.in_sequence || b.in_sequence};
}
// Returns x with the intersection of both bands.
AttnTerm restrict_to_bands(AttnTerm x, const TermBand& a, const TermBand& b) {
  const std::optional<TermBand> band = intersect_bands(a, b);
  if (!band) return {};
  x.band = *band;
  return x;
}

// Returns a + sign * b of indices and numbers, or nullopt if one is neither or their rows or lengths differ.
std::optional<AttnTerm> add_indices(const AttnTerm& a, const AttnTerm& b, int sign) {
  const auto is_index_sum = [](const AttnTerm& x) { return x.kind == TermKind::index || x.kind == TermKind::constant; };
  if (!is_index_sum(a) || !is_index_sum(b)) return std::nullopt;
  if (!a.dim.empty() && !b.dim.empty() && a.dim != b.dim) return std::nullopt;
  if (a.tensor >= 0 && b.tensor >= 0 && a.tensor != b.tensor) return std::nullopt;
  AttnTerm out{.kind = TermKind::index, .number = a.number + sign * b.number};
  out.affine = {a.affine.keys + sign * b.affine.keys, a.affine.rows + sign * b.affine.rows,
                a.affine.lengths + sign * b.affine.lengths, a.affine.pages + sign * b.affine.pages};
  out.dim = a.dim.empty() ? b.dim : a.dim;
  out.tensor = std::max(a.tensor, b.tensor);
  return out;
}
bool same_scores(const AttnTerm& a, const AttnTerm& b) {
  return a.number == b.number && a.tanh_scale == b.tanh_scale && a.band == b.band;
}

// True for kinds with a factor.
bool has_factor(TermKind kind) {
  return kind == TermKind::softmax || kind == TermKind::dp || kind == TermKind::p_times_dp || kind == TermKind::delta ||
         kind == TermKind::dp_minus_delta || kind == TermKind::p_times_delta || kind == TermKind::ds;
}

AttnTerm evaluate_unary(Function f, AttnTerm x) {
  if (f == Function::exp && x.kind == TermKind::scores_minus_max) {
    x.kind = TermKind::exp_scores;
    return x;
  }
  if (f == Function::tanh && x.kind == TermKind::scores && x.tanh_scale == 0 && x.band == TermBand{}) {
    x.tanh_scale = x.number;
    x.number = 1;
    return x;
  }
  return {};
}

// Returns the softmax p times a term that is computed from its gradient.
AttnTerm multiply_softmax(const AttnTerm& p, const AttnTerm& x) {
  if (x.has_softmax && !same_scores(p, x)) return {};
  AttnTerm out = p;
  out.factor = p.factor * x.factor;
  out.tensor = x.tensor;
  out.has_softmax = true;
  out.kind = TermKind::unknown;
  if (x.kind == TermKind::dp) out.kind = TermKind::p_times_dp;
  if (x.kind == TermKind::delta) out.kind = TermKind::p_times_delta;
  if (x.kind == TermKind::dp_minus_delta) out.kind = TermKind::ds;
  return out;
}

AttnTerm multiply_terms(const AttnTerm& a, const AttnTerm& b) {
  if (a.kind == TermKind::constant && b.kind != TermKind::constant) return multiply_terms(b, a);
  AttnTerm out = a;
  if (a.kind == TermKind::scores && b.kind == TermKind::constant) {
    out.number *= b.number;
    return b.number > 0 ? out : AttnTerm{};  // a negative number would make the mask +inf
  }
  if (a.kind == TermKind::index && b.kind == TermKind::constant && b.number == std::floor(b.number) &&
      std::abs(b.number) < 1 << 24) {
    const auto times = static_cast<std::int64_t>(b.number);
    out.number *= b.number;
    out.affine = {a.affine.keys * times, a.affine.rows * times, a.affine.lengths * times, a.affine.pages * times};
    return out;
  }
  if (has_factor(a.kind) && b.kind == TermKind::constant) {
    out.factor *= b.number;
    return out;
  }
  if (a.kind == TermKind::condition && b.kind == TermKind::condition) return restrict_to_bands(a, a.band, b.band);
  if (a.kind == TermKind::inverse_exp_sum && b.kind == TermKind::exp_scores) return multiply_terms(b, a);
  if (a.kind == TermKind::exp_scores && b.kind == TermKind::inverse_exp_sum && same_scores(a, b)) {
    out.kind = TermKind::softmax;
    return out;
  }
  if (b.kind == TermKind::softmax && a.kind != TermKind::softmax) return multiply_terms(b, a);
  if (a.kind == TermKind::softmax) return multiply_softmax(a, b);
  if (a.kind == TermKind::tensor && b.kind == TermKind::dout) return multiply_terms(b, a);
  if (a.kind == TermKind::dout && b.kind == TermKind::tensor)
    return {.kind = TermKind::dout_product, .tensor = b.tensor};
  return {};
}

AttnTerm divide_terms(const AttnTerm& a, const AttnTerm& b) {
  if (b.kind == TermKind::constant) return multiply_terms(a, {.kind = TermKind::constant, .number = 1 / b.number});
  AttnTerm out = b;
  if (a.kind == TermKind::constant && a.number == 1 && b.kind == TermKind::exp_sum) {
    out.kind = TermKind::inverse_exp_sum;
    return out;
  }
  if (a.kind == TermKind::exp_scores && b.kind == TermKind::exp_sum && same_scores(a, b)) {
    out.kind = TermKind::softmax;
    return out;
  }
  return {};
}

AttnTerm add_terms(const AttnTerm& a, const AttnTerm& b) {
  if (a.kind == TermKind::mask && b.kind == TermKind::scores) return add_terms(b, a);
  if ((a.kind == TermKind::scores || a.kind == TermKind::mask) && b.kind == TermKind::mask)
    return restrict_to_bands(a, a.band, b.band);
  return add_indices(a, b, 1).value_or(AttnTerm{});
}

AttnTerm subtract_terms(const AttnTerm& a, const AttnTerm& b) {
  AttnTerm out = a;
  if (a.kind == TermKind::scores && b.kind == TermKind::row_max && same_scores(a, b)) {
    out.kind = TermKind::scores_minus_max;
    return out;
  }
  if (a.kind == TermKind::dp && b.kind == TermKind::delta && a.factor == b.factor) {
    out = b;
    out.kind = TermKind::dp_minus_delta;
    return out;
  }
  if (a.kind == TermKind::p_times_dp && b.kind == TermKind::p_times_delta && a.factor == b.factor &&
      same_scores(a, b)) {
    out.kind = TermKind::ds;
    out.tensor = b.tensor;
    return out;
  }
  return add_indices(a, b, -1).value_or(AttnTerm{});
}

AttnTerm select_terms(const AttnTerm& where, const AttnTerm& a, const AttnTerm& b) {
  const auto is = [](const AttnTerm& x, double number) { return x.kind == TermKind::constant && x.number == number; };
  if (where.kind != TermKind::condition || !is(b, -infinity)) return {};
  AttnTerm out = a;
  if (is(a, 0)) out = {.kind = TermKind::mask};
  if (out.kind != TermKind::mask && out.kind != TermKind::scores) return {};
  return restrict_to_bands(out, out.band, where.band);
}

}  // namespace

double AttentionEvaluator::extent_of(const std::string& dim) const {
  std::int64_t longest = 1;
  for (const Shape& shape : shapes_) longest = std::max(longest, ridge::axis_along(shape, dim).extent);
  return static_cast<double>(longest);
}

// Returns the size of a dimension of some tensor. Shapes do not tell the others, such as the W of a window.
AttnTerm AttentionEvaluator::evaluate_size(const std::string& dim) const {
  const auto has_axis = [&](const Shape& shape) {
    return std::any_of(shape.begin(), shape.end(), [&](const auto& axis) { return axis.dim == dim; });
  };
  if (std::none_of(shapes_.begin(), shapes_.end(), has_axis)) return {};
  return {.kind = TermKind::constant, .number = extent_of(dim)};
}

AttnTerm AttentionEvaluator::evaluate_node(const Node& node) {
  switch (node.kind) {
    case Node::Kind::tensor: return evaluate_tensor(node.tensor);
    case Node::Kind::number: return {.kind = TermKind::constant, .number = node.number};
    case Node::Kind::index: {
      const std::string& dim = node.over[0].dim;
      if (dim == keys_) return {.kind = TermKind::index, .affine = {.keys = 1}};
      if (dim == inputs_.pages) return {.kind = TermKind::index, .affine = {.pages = 1}};
      if (extent_of(dim) == 1) return {.kind = TermKind::constant, .number = 0};
      return {.kind = TermKind::index, .dim = dim, .affine = {.rows = 1}};
    }
    case Node::Kind::size: return evaluate_size(node.over[0].dim);
    case Node::Kind::along_dims: return evaluate_reduction(node);
    case Node::Kind::call: return node.repeat == 1 ? evaluate_call(node) : AttnTerm{};
    case Node::Kind::sequence: return {.kind = TermKind::sequence, .dim = node.over[0].dim};
    case Node::Kind::previous:
    case Node::Kind::routine: return {};
  }
  return {};
}

AttnTerm AttentionEvaluator::evaluate_tensor(int tensor) const {
  if (tensor == inputs_.scores) return {.kind = TermKind::scores, .number = 1};
  if (tensor == inputs_.dp) return {.kind = TermKind::dp};
  if (tensor == inputs_.dout) return {.kind = TermKind::dout};
  if (inputs_.lengths.contains(tensor)) return {.kind = TermKind::index, .affine = {.lengths = 1}, .tensor = tensor};
  if (const auto delta = inputs_.deltas.find(tensor); delta != inputs_.deltas.end()) return delta->second;
  return {.kind = TermKind::tensor, .tensor = tensor};
}

AttnTerm AttentionEvaluator::evaluate_reduction(const Node& node) const {
  const AttnTerm& x = argument_of(node, 0);
  if (covers_keys(node.over)) return reduce_keys(node.function, x);
  DimNames over, values = value_dims_;
  for (const Axis& axis : node.over) over.push_back(axis.dim);
  std::sort(over.begin(), over.end());
  std::sort(values.begin(), values.end());
  if (x.kind != TermKind::dout_product || node.function != Function::sum || over != values) return {};
  return {.kind = TermKind::delta, .tensor = x.tensor};
}

bool AttentionEvaluator::covers_keys(const std::vector<Axis>& over) const {
  const auto named = [&](const std::string& dim) {
    return std::any_of(over.begin(), over.end(), [&](const Axis& axis) { return axis.dim == dim; });
  };
  if (inputs_.pages.empty()) return over.size() == 1 && over[0].dim == keys_;
  return over.size() == 2 && named(keys_) && named(inputs_.pages);
}

AttnTerm AttentionEvaluator::reduce_keys(Function function, AttnTerm x) const {
  if (function == Function::softmax && x.kind == TermKind::scores)
    x.kind = TermKind::softmax;
  else if (function == Function::max && x.kind == TermKind::scores)
    x.kind = TermKind::row_max;
  else if (function == Function::sum && x.kind == TermKind::exp_scores)
    x.kind = TermKind::exp_sum;
  else if (function == Function::sum && x.kind == TermKind::p_times_dp)
    x.kind = TermKind::delta;
  else
    return {};
  return x;
}

AttnTerm AttentionEvaluator::evaluate_call(const Node& node) {
  const auto arity = node.arguments.size();
  if (std::all_of(node.arguments.begin(), node.arguments.end(),
                  [&](int i) { return terms_[i].kind == TermKind::constant; }))
    return fold_constants(node);
  if (arity == 1) return evaluate_unary(node.function, argument_of(node, 0));
  if (arity == 2) return evaluate_binary(node.function, argument_of(node, 0), argument_of(node, 1));
  if (arity == 3 && node.function == Function::where)
    return select_terms(argument_of(node, 0), argument_of(node, 1), argument_of(node, 2));
  return {};
}

AttnTerm AttentionEvaluator::fold_constants(const Node& node) const {
  double in[3] = {0, 0, 0};
  for (std::size_t i = 0; i < node.arguments.size() && i < 3; ++i) in[i] = argument_of(node, i).number;
  const auto& of = function_info(node.function);
  if (of.reference == nullptr) return {};
  return {.kind = TermKind::constant, .number = of.reference(in[0], in[1], in[2])};
}

AttnTerm AttentionEvaluator::evaluate_binary(Function f, const AttnTerm& a, const AttnTerm& b) {
  switch (f) {
    case Function::multiply: return multiply_terms(a, b);
    case Function::divide: return divide_terms(a, b);
    case Function::add: return add_terms(a, b);
    case Function::subtract: return subtract_terms(a, b);
    case Function::less: return compare_indices(a, b, 1);
    case Function::less_equal: return compare_indices(a, b, 0);
    case Function::greater: return compare_indices(b, a, 1);
    case Function::greater_equal: return compare_indices(b, a, 0);
    case Function::equal: return compare_sequences(a, b);
    default: return {};  // no other function is part of attention
  }
}

// Returns the condition that a key and a row are in the same sequence.
AttnTerm AttentionEvaluator::compare_sequences(const AttnTerm& a, const AttnTerm& b) {
  if (a.kind != TermKind::sequence || b.kind != TermKind::sequence || (a.dim == keys_) == (b.dim == keys_)) return {};
  const std::string& other = a.dim == keys_ ? b.dim : a.dim;
  if (!masked_dim_.empty() && masked_dim_ != other) return {};
  masked_dim_ = other;
  AttnTerm out{.kind = TermKind::condition};
  out.band.in_sequence = true;
  return out;
}

// Returns the condition a + strict <= b of indices: a key against a length, or against a row or a number (+ a length).
AttnTerm AttentionEvaluator::compare_indices(const AttnTerm& a, const AttnTerm& b, int strict) {
  const std::optional<AttnTerm> difference = add_indices(b, a, -1);  // the condition is difference >= strict
  if (!difference) return {};
  const AffineIndex& affine = difference->affine;
  if (affine.pages != affine.keys * inputs_.page_rows) return {};
  if (difference->number != std::floor(difference->number) ||
      std::abs(difference->number) >= static_cast<double>(unbounded) - 1)
    return {};
  const auto max_value = static_cast<std::int64_t>(difference->number) - strict;
  AttnTerm out{.kind = TermKind::condition};
  TermBand& band = out.band;
  if (affine.lengths != 0) band.lengths_tensor = difference->tensor;
  if (affine.keys == -1 && affine.rows == 0 && affine.lengths == 1) {
    band.length_offset = max_value + 1;
    return out;
  }
  const bool is_high = affine.keys == -1;
  const std::int64_t sign = is_high ? 1 : -1;
  const bool from_length = affine.lengths == sign;
  if (affine.keys != -sign || (affine.rows != sign && affine.rows != 0) || !(from_length || affine.lengths == 0))
    return {};
  if (affine.rows == 0)
    has_fixed_mask_limit_ = true;
  else if (masked_dim_.empty() || masked_dim_ == difference->dim)
    masked_dim_ = difference->dim;
  else
    return {};
  (is_high ? band.high : band.low) = sign * max_value;
  (is_high ? band.high_from_length : band.low_from_length) = from_length;
  return out;
}

}  // namespace ridge
