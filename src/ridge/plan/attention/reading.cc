#include "ridge/plan/attention/reading.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "ridge/base/function.h"
#include "ridge/program/elementwise.h"

namespace ridge {
namespace {

using Value = AttentionValue;
using Kind = Value::Kind;
using Band = Value::Band;

constexpr std::int64_t far = ops::AttentionProblem::far;
constexpr double infinity = std::numeric_limits<double>::infinity();

// Returns the intersection of two bands; nullopt if their lengths differ or if a limit depends on one in only one band.
std::optional<Band> both(const Band& a, const Band& b) {
  if (a.lengths >= 0 && b.lengths >= 0 && a.lengths != b.lengths) return std::nullopt;
  const auto agree = [](std::int64_t x, bool x_moves, std::int64_t y, bool y_moves, std::int64_t none) {
    return x == none || y == none || x_moves == y_moves;
  };
  if (!agree(a.low, a.low_moves, b.low, b.low_moves, -far) || !agree(a.high, a.high_moves, b.high, b.high_moves, far))
    return std::nullopt;
  return Band{std::max(a.low, b.low),        std::min(a.high, b.high),     std::min(a.limit, b.limit),
              a.low_moves || b.low_moves,    a.high_moves || b.high_moves, std::max(a.lengths, b.lengths),
              a.in_sequence || b.in_sequence};
}
// Returns x with the intersection of both bands.
Value within(Value x, const Band& a, const Band& b) {
  const std::optional<Band> band = both(a, b);
  if (!band) return {};
  x.band = *band;
  return x;
}

// Returns a + sign * b of indices and numbers, or nullopt if one is neither or their rows or lengths differ.
std::optional<Value> added(const Value& a, const Value& b, int sign) {
  const auto is_place = [](const Value& x) { return x.kind == Kind::index || x.kind == Kind::constant; };
  if (!is_place(a) || !is_place(b)) return std::nullopt;
  if (!a.dim.empty() && !b.dim.empty() && a.dim != b.dim) return std::nullopt;
  if (a.of >= 0 && b.of >= 0 && a.of != b.of) return std::nullopt;
  Value out{.kind = Kind::index, .number = a.number + sign * b.number};
  out.place = {a.place.keys + sign * b.place.keys, a.place.rows + sign * b.place.rows,
               a.place.lengths + sign * b.place.lengths, a.place.pages + sign * b.place.pages};
  out.dim = a.dim.empty() ? b.dim : a.dim;
  out.of = std::max(a.of, b.of);
  return out;
}
bool same_scores(const Value& a, const Value& b) {
  return a.number == b.number && a.within == b.within && a.band == b.band;
}

// True for kinds with a factor.
bool scales(Kind kind) {
  return kind == Kind::softmax || kind == Kind::gradient || kind == Kind::weighted || kind == Kind::mean ||
         kind == Kind::centred || kind == Kind::shares || kind == Kind::slopes;
}

Value unary(Function f, Value x) {
  if (f == Function::exp && x.kind == Kind::distance) {
    x.kind = Kind::weights;
    return x;
  }
  if (f == Function::tanh && x.kind == Kind::scores && x.within == 0 && x.band == Band{}) {
    x.within = x.number;
    x.number = 1;
    return x;
  }
  return {};
}

// Returns the softmax p times a term that is computed from its gradient.
Value of_softmax(const Value& p, const Value& x) {
  if (x.weighed && !same_scores(p, x)) return {};
  Value out = p;
  out.factor = p.factor * x.factor;
  out.of = x.of;
  out.weighed = true;
  out.kind = Kind::unknown;
  if (x.kind == Kind::gradient) out.kind = Kind::weighted;
  if (x.kind == Kind::mean) out.kind = Kind::shares;
  if (x.kind == Kind::centred) out.kind = Kind::slopes;
  return out;
}

Value product(const Value& a, const Value& b) {
  if (a.kind == Kind::constant && b.kind != Kind::constant) return product(b, a);
  Value out = a;
  if (a.kind == Kind::scores && b.kind == Kind::constant) {
    out.number *= b.number;
    return b.number > 0 ? out : Value{};  // a negative number would make the mask +inf
  }
  if (a.kind == Kind::index && b.kind == Kind::constant && b.number == std::floor(b.number) &&
      std::abs(b.number) < 1 << 24) {
    const auto times = static_cast<std::int64_t>(b.number);
    out.number *= b.number;
    out.place = {a.place.keys * times, a.place.rows * times, a.place.lengths * times, a.place.pages * times};
    return out;
  }
  if (scales(a.kind) && b.kind == Kind::constant) {
    out.factor *= b.number;
    return out;
  }
  if (a.kind == Kind::condition && b.kind == Kind::condition) return within(a, a.band, b.band);
  if (a.kind == Kind::inverse && b.kind == Kind::weights) return product(b, a);
  if (a.kind == Kind::weights && b.kind == Kind::inverse && same_scores(a, b)) {
    out.kind = Kind::softmax;
    return out;
  }
  if (b.kind == Kind::softmax && a.kind != Kind::softmax) return product(b, a);
  if (a.kind == Kind::softmax) return of_softmax(a, b);
  if (a.kind == Kind::tensor && b.kind == Kind::upstream) return product(b, a);
  if (a.kind == Kind::upstream && b.kind == Kind::tensor) return {.kind = Kind::dot, .of = b.of};
  return {};
}

Value quotient(const Value& a, const Value& b) {
  if (b.kind == Kind::constant) return product(a, {.kind = Kind::constant, .number = 1 / b.number});
  Value out = b;
  if (a.kind == Kind::constant && a.number == 1 && b.kind == Kind::total) {
    out.kind = Kind::inverse;
    return out;
  }
  if (a.kind == Kind::weights && b.kind == Kind::total && same_scores(a, b)) {
    out.kind = Kind::softmax;
    return out;
  }
  return {};
}

Value sum(const Value& a, const Value& b) {
  if (a.kind == Kind::mask && b.kind == Kind::scores) return sum(b, a);
  if ((a.kind == Kind::scores || a.kind == Kind::mask) && b.kind == Kind::mask) return within(a, a.band, b.band);
  return added(a, b, 1).value_or(Value{});
}

Value difference(const Value& a, const Value& b) {
  Value out = a;
  if (a.kind == Kind::scores && b.kind == Kind::largest && same_scores(a, b)) {
    out.kind = Kind::distance;
    return out;
  }
  if (a.kind == Kind::gradient && b.kind == Kind::mean && a.factor == b.factor) {
    out = b;
    out.kind = Kind::centred;
    return out;
  }
  if (a.kind == Kind::weighted && b.kind == Kind::shares && a.factor == b.factor && same_scores(a, b)) {
    out.kind = Kind::slopes;
    out.of = b.of;
    return out;
  }
  return added(a, b, -1).value_or(Value{});
}

Value chosen(const Value& where, const Value& a, const Value& b) {
  const auto is = [](const Value& x, double number) { return x.kind == Kind::constant && x.number == number; };
  if (where.kind != Kind::condition || !is(b, -infinity)) return {};
  Value out = a;
  if (is(a, 0)) out = {.kind = Kind::mask};
  if (out.kind != Kind::mask && out.kind != Kind::scores) return {};
  return within(out, out.band, where.band);
}

}  // namespace

double AttentionReading::extent(const std::string& dim) const {
  std::int64_t longest = 1;
  for (const Shape& shape : shapes_) longest = std::max(longest, ridge::along(shape, dim).extent);
  return static_cast<double>(longest);
}

Value AttentionReading::value_of(const Node& node) {
  switch (node.kind) {
    case Node::Kind::tensor: return leaf(node.tensor);
    case Node::Kind::number: return {.kind = Kind::constant, .number = node.number};
    case Node::Kind::index: {
      const std::string& dim = node.over[0].dim;
      if (dim == keys_) return {.kind = Kind::index, .place = {.keys = 1}};
      if (dim == leaves_.pages) return {.kind = Kind::index, .place = {.pages = 1}};
      if (extent(dim) == 1) return {.kind = Kind::constant, .number = 0};
      return {.kind = Kind::index, .dim = dim, .place = {.rows = 1}};
    }
    case Node::Kind::size: return {.kind = Kind::constant, .number = extent(node.over[0].dim)};
    case Node::Kind::along: return along(node);
    case Node::Kind::call: return node.repeat == 1 ? call(node) : Value{};
    case Node::Kind::sequence: return {.kind = Kind::sequence, .dim = node.over[0].dim};
    case Node::Kind::previous:
    case Node::Kind::routine: return {};
  }
  return {};
}

Value AttentionReading::leaf(int tensor) const {
  if (tensor == leaves_.scores) return {.kind = Kind::scores, .number = 1};
  if (tensor == leaves_.gradient) return {.kind = Kind::gradient};
  if (tensor == leaves_.upstream) return {.kind = Kind::upstream};
  if (leaves_.lengths.contains(tensor)) return {.kind = Kind::index, .place = {.lengths = 1}, .of = tensor};
  if (const auto mean = leaves_.means.find(tensor); mean != leaves_.means.end()) return mean->second;
  return {.kind = Kind::tensor, .of = tensor};
}

Value AttentionReading::along(const Node& node) const {
  const Value& x = argument(node, 0);
  if (are_keys(node.over)) return along_keys(node.function, x);
  Dims over, values = of_values_;
  for (const Axis& axis : node.over) over.push_back(axis.dim);
  std::sort(over.begin(), over.end());
  std::sort(values.begin(), values.end());
  if (x.kind != Kind::dot || node.function != Function::sum || over != values) return {};
  return {.kind = Kind::mean, .of = x.of};
}

bool AttentionReading::are_keys(const std::vector<Axis>& over) const {
  const auto named = [&](const std::string& dim) {
    return std::any_of(over.begin(), over.end(), [&](const Axis& axis) { return axis.dim == dim; });
  };
  if (leaves_.pages.empty()) return over.size() == 1 && over[0].dim == keys_;
  return over.size() == 2 && named(keys_) && named(leaves_.pages);
}

Value AttentionReading::along_keys(Function function, Value x) const {
  if (function == Function::softmax && x.kind == Kind::scores)
    x.kind = Kind::softmax;
  else if (function == Function::max && x.kind == Kind::scores)
    x.kind = Kind::largest;
  else if (function == Function::sum && x.kind == Kind::weights)
    x.kind = Kind::total;
  else if (function == Function::sum && x.kind == Kind::weighted)
    x.kind = Kind::mean;
  else
    return {};
  return x;
}

Value AttentionReading::call(const Node& node) {
  const auto arity = node.arguments.size();
  if (std::all_of(node.arguments.begin(), node.arguments.end(),
                  [&](int i) { return values_[static_cast<std::size_t>(i)].kind == Kind::constant; }))
    return folded(node);
  if (arity == 1) return unary(node.function, argument(node, 0));
  if (arity == 2) return binary(node.function, argument(node, 0), argument(node, 1));
  if (arity == 3 && node.function == Function::where)
    return chosen(argument(node, 0), argument(node, 1), argument(node, 2));
  return {};
}

Value AttentionReading::folded(const Node& node) const {
  double in[3] = {0, 0, 0};
  for (std::size_t i = 0; i < node.arguments.size() && i < 3; ++i) in[i] = argument(node, i).number;
  const auto& of = row(node.function);
  if (of.value == nullptr) return {};
  return {.kind = Kind::constant, .number = of.value(in[0], in[1], in[2])};
}

Value AttentionReading::binary(Function f, const Value& a, const Value& b) {
  switch (f) {
    case Function::multiply: return product(a, b);
    case Function::divide: return quotient(a, b);
    case Function::add: return sum(a, b);
    case Function::subtract: return difference(a, b);
    case Function::less: return compared(a, b, 1);
    case Function::less_equal: return compared(a, b, 0);
    case Function::greater: return compared(b, a, 1);
    case Function::greater_equal: return compared(b, a, 0);
    case Function::equal: return same_sequence(a, b);
    default: return {};  // no other function is part of attention
  }
}

// Returns the condition that a key and a row are in the same sequence.
Value AttentionReading::same_sequence(const Value& a, const Value& b) {
  if (a.kind != Kind::sequence || b.kind != Kind::sequence || (a.dim == keys_) == (b.dim == keys_)) return {};
  const std::string& other = a.dim == keys_ ? b.dim : a.dim;
  if (!rows_.empty() && rows_ != other) return {};
  rows_ = other;
  Value out{.kind = Kind::condition};
  out.band.in_sequence = true;
  return out;
}

// Returns the condition a + strict <= b of indices: a key against a length, or against a row or a number (+ a length).
Value AttentionReading::compared(const Value& a, const Value& b, int less) {
  const std::optional<Value> apart = added(b, a, -1);  // the condition is difference >= strict
  if (!apart) return {};
  const AttentionPlace& place = apart->place;
  if (place.pages != place.keys * leaves_.page_rows) return {};
  if (apart->number != std::floor(apart->number) || std::abs(apart->number) >= static_cast<double>(far) - 1) return {};
  const auto most = static_cast<std::int64_t>(apart->number) - less;
  Value out{.kind = Kind::condition};
  Band& band = out.band;
  if (place.lengths != 0) band.lengths = apart->of;
  if (place.keys == -1 && place.rows == 0 && place.lengths == 1) {
    band.limit = most + 1;
    return out;
  }
  const bool is_high = place.keys == -1;
  const std::int64_t sign = is_high ? 1 : -1;
  const bool moves = place.lengths == sign;
  if (place.keys != -sign || (place.rows != sign && place.rows != 0) || !(moves || place.lengths == 0)) return {};
  if (place.rows == 0)
    stands_ = true;
  else if (rows_.empty() || rows_ == apart->dim)
    rows_ = apart->dim;
  else
    return {};
  (is_high ? band.high : band.low) = sign * most;
  (is_high ? band.high_moves : band.low_moves) = moves;
  return out;
}

}  // namespace ridge
