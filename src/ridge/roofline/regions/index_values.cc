#include "ridge/roofline/regions/index_values.h"

#include <algorithm>
#include <cmath>

namespace ridge {
namespace {

constexpr std::size_t max_cases = 12, max_sums = 400;  // Limits of what is followed; programs have a few

using Kind = IndexValue::Kind;

bool is_positive_size(const IndexSum& sum) {
  return sum.is_size() && !sum.rest.is_zero() &&
         std::all_of(sum.rest.terms().begin(), sum.rest.terms().end(),
                     [](const auto& term) { return term.second.is_exact() && term.second > Rational(0); });
}

bool is_positive(const IndexValue& value) {
  if (value.kind == Kind::finite) return is_positive_size(value.sum);
  return value.kind == Kind::plus_infinity || value.is_positive;
}

bool is_infinite(const IndexValue& value) {
  return value.kind == Kind::plus_infinity || value.kind == Kind::minus_infinity;
}

bool has_indices(const IndexValue& value) {
  return value.depends_on_indices || (value.kind == Kind::finite && !value.sum.is_size());
}

IndexValue make_unknown(const std::vector<IndexValue>& from) {
  return {.depends_on_indices = std::any_of(from.begin(), from.end(), has_indices)};
}

IndexValue negate_value(const IndexValue& x) {
  if (x.kind == Kind::finite) return make_finite(x.sum.times(-1));
  if (x.kind == Kind::plus_infinity) return {.kind = Kind::minus_infinity};
  if (x.kind == Kind::minus_infinity) return {.kind = Kind::plus_infinity};
  return make_unknown({x});
}

IndexValue add_values(const IndexValue& a, const IndexValue& b) {
  if (is_infinite(a) && is_infinite(b)) return a.kind == b.kind ? a : IndexValue{};
  if (is_infinite(a)) return a;
  if (is_infinite(b)) return b;
  if (a.is_known() && b.is_known()) return make_finite(a.sum.plus(b.sum));
  IndexValue out = make_unknown({a, b});
  out.is_positive = is_positive(a) && is_positive(b);
  return out;
}

IndexValue multiply_values(const IndexValue& a, const IndexValue& b) {
  if (a.is_constant(0) || b.is_constant(0)) return is_infinite(a) || is_infinite(b) ? IndexValue{} : make_number(0);
  const auto left = a.constant(), right = b.constant();
  if (left && b.kind == Kind::finite) return make_finite(b.sum.times(*left));
  if (right && a.kind == Kind::finite) return make_finite(a.sum.times(*right));
  const auto sized = [](const IndexValue& x) { return x.kind == Kind::finite && x.sum.is_size(); };
  if (sized(a) && sized(b)) return make_finite({.rest = a.sum.rest * b.sum.rest});
  if (is_infinite(b) && !is_infinite(a)) return multiply_values(b, a);
  if (is_infinite(a)) {
    if (right && *right < Rational(0)) return negate_value(a);
    if (b.kind == Kind::minus_infinity) return negate_value(a);
    return is_positive(b) ? a : make_unknown({b});
  }
  IndexValue out = make_unknown({a, b});
  out.is_positive = is_positive(a) && is_positive(b);
  out.is_boolean = (a.is_boolean || a.is_constant(1)) && (b.is_boolean || b.is_constant(1));
  return out;
}

IndexValue divide_values(const IndexValue& a, const IndexValue& b) {
  const auto divisor = b.constant();
  if (divisor && divisor->is_zero()) return make_unknown({a});
  if (divisor && a.kind == Kind::finite) return make_finite(a.sum.times(Rational(1) / *divisor));
  if (divisor && is_infinite(a)) return multiply_values(a, make_number(*divisor > Rational(0) ? 1 : -1));
  if (a.is_constant(0) && !is_infinite(a)) return a;
  if (is_infinite(b) && !is_infinite(a)) return make_number(0);
  if (is_infinite(a) && !is_infinite(b) && is_positive(b)) return a;
  IndexValue out = make_unknown({a, b});
  out.is_positive = is_positive(a) && is_positive(b) && !is_infinite(a);
  return out;
}

ValueCases choose_value(const Formula& condition, const IndexValue& yes, const IndexValue& no) {
  return ValueCases(std::vector<ValueCase>{{condition, yes}, {!condition, no}});
}

// Returns the indices with a >= b.
std::optional<Formula> at_least(const IndexValue& a, const IndexValue& b) {
  if (!a.is_known() || !b.is_known()) return std::nullopt;
  if (a.kind == Kind::plus_infinity || b.kind == Kind::minus_infinity) return Formula(true);
  if (a.kind == Kind::minus_infinity || b.kind == Kind::plus_infinity) return Formula(false);
  return Formula::at_least_zero(a.sum.plus(b.sum, -1));
}

ValueCases compare_values(Function function, const IndexValue& a, const IndexValue& b) {
  const auto above = at_least(a, b), below = at_least(b, a);
  if (!above || !below) {
    IndexValue out = make_unknown({a, b});
    out.is_boolean = true;
    return ValueCases(out);
  }
  const auto formula = [&] {
    switch (function) {
      case Function::less: return !*above;
      case Function::less_equal: return *below;
      case Function::greater: return !*below;
      case Function::greater_equal: return *above;
      default: return *above && *below;
    }
  };
  return choose_value(formula(), make_number(1), make_number(0));
}

// Returns the larger of two values, or the smaller one if `sign` is -1.
ValueCases find_extreme(const IndexValue& a, const IndexValue& b, int sign) {
  const auto above = sign > 0 ? at_least(a, b) : at_least(b, a);
  if (above) return choose_value(*above, a, b);
  const Kind ignored = sign > 0 ? Kind::minus_infinity : Kind::plus_infinity,
             wins = sign > 0 ? Kind::plus_infinity : Kind::minus_infinity;
  for (const auto& [one, other] : {std::pair{&a, &b}, std::pair{&b, &a}}) {
    if (one->kind == ignored) return ValueCases(*other);
    if (one->kind == wins) return ValueCases(*one);
    if (other->is_boolean && one->is_constant(sign > 0 ? 1 : 0)) return ValueCases(*one);
    if (other->is_boolean && one->is_constant(sign > 0 ? 0 : 1)) return ValueCases(*other);
  }
  IndexValue out = make_unknown({a, b});
  out.is_boolean = a.is_boolean && b.is_boolean;
  return ValueCases(out);
}

ValueCases sign_of(const IndexValue& x) {
  if (is_infinite(x)) return ValueCases(make_number(x.kind == Kind::plus_infinity ? 1 : -1));
  if (x.kind != Kind::finite) return ValueCases(make_unknown({x}));
  const Formula above = Formula::at_least_zero(x.sum), below = Formula::at_least_zero(x.sum.times(-1));
  return ValueCases(
      std::vector<ValueCase>{{!below, make_number(1)}, {above && below, make_number(0)}, {!above, make_number(-1)}});
}

std::optional<double> to_double(const IndexValue& x) {
  if (x.kind == Kind::plus_infinity) return HUGE_VAL;
  if (x.kind == Kind::minus_infinity) return -HUGE_VAL;
  const auto constant = x.constant();
  return constant && constant->is_exact() ? std::optional(constant->to_double()) : std::nullopt;
}

// Returns the value of a function that is evaluated as it is defined, if the arguments are numbers.
IndexValue evaluate_numbers(Function function, int repeat, const std::vector<IndexValue>& arguments) {
  IndexValue unknown = make_unknown(arguments);
  const Function positive[] = {Function::exp, Function::sigmoid, Function::softplus, Function::rsqrt};
  const bool keeps_sign = function == Function::sqrt && is_positive(arguments[0]);
  unknown.is_positive =
      keeps_sign || std::find(std::begin(positive), std::end(positive), function) != std::end(positive);
  double x[3] = {0, 0, 0};
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const auto value = to_double(arguments[i]);
    if (!value) return unknown;
    x[i] = *value;
  }
  const auto reference = function_info(function).reference;
  if (reference == nullptr) return unknown;
  for (int i = 0; i < std::min(repeat, 1000); ++i) x[0] = reference(x[0], x[1], x[2]);
  if (repeat > 1000 && reference(x[0], x[1], x[2]) != x[0]) return unknown;
  if (std::isnan(x[0])) return unknown;
  const IndexValue out = make_number(x[0]);
  return out.is_known() ? out : IndexValue{.is_positive = x[0] > 0};
}

ValueCases apply_to_values(Function function, int repeat, const std::vector<IndexValue>& x) {
  if (repeat == 1) {
    switch (function) {
      case Function::add: return ValueCases(add_values(x[0], x[1]));
      case Function::subtract: return ValueCases(add_values(x[0], negate_value(x[1])));
      case Function::multiply: return ValueCases(multiply_values(x[0], x[1]));
      case Function::divide: return ValueCases(divide_values(x[0], x[1]));
      case Function::negate: return ValueCases(negate_value(x[0]));
      case Function::less:
      case Function::less_equal:
      case Function::greater:
      case Function::greater_equal:
      case Function::equal: return compare_values(function, x[0], x[1]);
      case Function::max: return find_extreme(x[0], x[1], 1);
      case Function::min: return find_extreme(x[0], x[1], -1);
      case Function::sign: return sign_of(x[0]);
      default: break;
    }
    if (x[0].kind == Kind::finite) {
      if (function == Function::floor) return ValueCases(make_finite(round_down(x[0].sum)));
      if (function == Function::abs)
        return choose_value(Formula::at_least_zero(x[0].sum), x[0], make_finite(x[0].sum.times(-1)));
      if (function == Function::relu) return find_extreme(x[0], make_number(0), 1);
    }
  }
  return ValueCases(evaluate_numbers(function, repeat, x));
}

// Appends the cases of a function for one combination of the arguments' cases.
void add_combination(Function function, int repeat, const Formula& where, const std::vector<IndexValue>& values,
                     std::vector<ValueCase>& out) {
  const ValueCases found = apply_to_values(function, repeat, values);
  for (const ValueCase& each : found.cases()) out.push_back({where && each.where, each.value});
}

ValueCases apply_where(const std::vector<ValueCases>& arguments) {
  const Formula zero = arguments[0].where_zero(), other = arguments[0].where_nonzero(), unknown = !(zero || other);
  std::vector<ValueCase> out;
  for (const ValueCase& yes : arguments[1].cases()) out.push_back({yes.where && other, yes.value});
  for (const ValueCase& no : arguments[2].cases()) out.push_back({no.where && zero, no.value});
  if (unknown.is_none()) return ValueCases(out);
  for (const ValueCase& yes : arguments[1].cases())
    for (const ValueCase& no : arguments[2].cases()) {
      const bool positive = is_positive(yes.value) && is_positive(no.value);
      IndexValue either{.is_positive = positive};
      either.depends_on_indices = has_indices(yes.value) || has_indices(no.value);
      out.push_back({unknown && yes.where && no.where, yes.value == no.value ? yes.value : either});
    }
  return ValueCases(out);
}

// Conditions that are 0 or 1 everywhere: their product or minimum is a conjunction, their maximum a disjunction.
std::optional<ValueCases> apply_to_conditions(Function function, const std::vector<ValueCases>& arguments) {
  const bool is_and = function == Function::multiply || function == Function::min;
  if ((!is_and && function != Function::max) || !arguments[0].is_boolean() || !arguments[1].is_boolean())
    return std::nullopt;
  const Formula a = arguments[0].where_nonzero(), b = arguments[1].where_nonzero();
  return choose_value(is_and ? a && b : a || b, make_number(1), make_number(0));
}

// clamp(x, low, high) is min(max(x, low), high).
ValueCases apply_clamp(const std::vector<ValueCases>& arguments) {
  return apply_function(Function::min, 1,
                        {apply_function(Function::max, 1, {arguments[0], arguments[1]}), arguments[2]});
}

}  // namespace

std::optional<Rational> IndexValue::constant() const {
  return kind == Kind::finite && sum.is_size() ? sum.rest.as_constant() : std::nullopt;
}

bool IndexValue::is_constant(std::int64_t value) const {
  const auto known = constant();
  return known && *known == Rational(value);
}

bool IndexValue::operator==(const IndexValue& o) const {
  return kind == o.kind && is_positive == o.is_positive && is_boolean == o.is_boolean &&
         depends_on_indices == o.depends_on_indices && (kind != Kind::finite || sum.to_string() == o.sum.to_string());
}

IndexValue make_finite(IndexSum sum) {
  if (!sum.is_exact()) return {.depends_on_indices = true};
  return {.kind = IndexValue::Kind::finite, .sum = std::move(sum)};
}

IndexValue make_number(double value) {
  if (std::isinf(value)) return {.kind = value > 0 ? Kind::plus_infinity : Kind::minus_infinity};
  constexpr double scale = 1024;  // Fractions with another denominator are not exact in binary, or rare
  if (std::isnan(value) || std::abs(value) >= 0x1p40 || value * scale != std::floor(value * scale))
    return {.is_positive = value > 0};
  return make_finite({.rest = Polynomial(Rational(static_cast<std::int64_t>(value * scale), 1024))});
}

ValueCases::ValueCases(const std::vector<ValueCase>& cases) {
  for (const ValueCase& each : cases) {
    if (each.where.is_none()) continue;
    const auto known =
        std::find_if(cases_.begin(), cases_.end(), [&](const ValueCase& c) { return c.value == each.value; });
    if (known == cases_.end())
      cases_.push_back(each);
    else
      known->where = known->where || each.where;
  }
  if (cases_.empty()) cases_.push_back({Formula(true), {}});
}

Formula ValueCases::where_zero() const {
  Formula out(false);
  for (const ValueCase& each : cases_)
    if (each.value.kind == Kind::finite) out = out || (each.where && Formula::equal_to_zero(each.value.sum));
  return out;
}

Formula ValueCases::where_nonzero() const {
  Formula out = where([](const IndexValue& v) { return is_infinite(v) || is_positive(v); });
  for (const ValueCase& each : cases_)
    if (each.value.kind == Kind::finite && !is_positive(each.value))
      out = out || (each.where && !Formula::equal_to_zero(each.value.sum));
  return out;
}

Formula ValueCases::where_known() const {
  return where([](const IndexValue& v) { return v.is_known(); });
}

bool ValueCases::is_boolean() const {
  return std::all_of(cases_.begin(), cases_.end(),
                     [](const ValueCase& c) { return c.value.is_constant(0) || c.value.is_constant(1); });
}

bool ValueCases::is_simple() const {
  return cases_.size() <= max_cases &&
         std::all_of(cases_.begin(), cases_.end(), [](const ValueCase& c) { return c.where.size() <= max_sums; });
}

ValueCases ValueCases::store() const {
  std::vector<ValueCase> out;
  for (const ValueCase& each : cases_) {
    const auto constant = each.value.constant();
    const bool is_small = constant && constant->denominator() == 1 && std::abs(constant->numerator()) <= 8;
    IndexValue other{.is_positive = is_positive(each.value), .depends_on_indices = has_indices(each.value)};
    out.push_back({each.where, is_small || is_infinite(each.value) ? each.value : other});
  }
  return ValueCases(out);
}

ValueCases apply_function(Function function, int repeat, const std::vector<ValueCases>& arguments) {
  if (function == Function::where) return apply_where(arguments);
  if (function == Function::clamp) return apply_clamp(arguments);
  if (arguments.size() == 2)
    if (auto joined = apply_to_conditions(function, arguments)) return *std::move(joined);
  std::vector<ValueCase> out;
  for (const ValueCase& first : arguments[0].cases()) {
    if (arguments.size() == 1) add_combination(function, repeat, first.where, {first.value}, out);
    if (arguments.size() != 2) continue;
    for (const ValueCase& second : arguments[1].cases())
      if (const Formula both = first.where && second.where; !both.is_none())
        add_combination(function, repeat, both, {first.value, second.value}, out);
  }
  return ValueCases(out);
}

ValueCases apply_along(const Node& node, const ValueCases& argument) {
  const auto crosses = [&](const Formula& where) {
    const std::set<std::string> variables = where.variables();
    return std::any_of(node.over.begin(), node.over.end(), [&](const Axis& a) { return variables.contains(a.dim); });
  };
  const bool is_extreme = node.function == Function::max || node.function == Function::min;
  const bool keeps_zero = is_extreme || node.function == Function::sum || node.function == Function::mean ||
                          node.function == Function::rmsnorm;
  std::vector<ValueCase> out;
  Formula rest(true);
  const auto add_case = [&](const Formula& where, const IndexValue& value) {
    out.push_back({where, value});
    rest = rest && !where;
  };
  for (const ValueCase& each : argument.cases()) {
    const bool minus_infinite = each.value.kind == Kind::minus_infinity;
    if (node.function == Function::softmax && minus_infinite) add_case(each.where, make_number(0));
    if (crosses(each.where) && node.function != Function::rmsnorm) continue;
    if ((keeps_zero && each.value.is_constant(0)) || (is_extreme && each.value.constant()))
      add_case(each.where, each.value);
  }
  IndexValue unknown{.is_positive = node.function == Function::softmax};
  for (const ValueCase& each : argument.cases()) unknown.depends_on_indices |= has_indices(each.value);
  out.push_back({rest, unknown});
  return ValueCases(out);
}

}  // namespace ridge
