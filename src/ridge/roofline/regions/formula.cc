#include "ridge/roofline/regions/formula.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "ridge/base/contains.h"

namespace ridge {
namespace {

void add_coefficient(std::map<std::string, Rational>& to, const std::string& variable, Rational coefficient) {
  Rational& sum = to[variable];
  sum = sum + coefficient;
  if (sum.is_zero()) to.erase(variable);
}

bool same_quotient(const IndexSum::Quotient& a, const IndexSum::Quotient& b) {
  return a.divisor == b.divisor && a.dividend->to_string() == b.dividend->to_string();
}

// Returns the least common multiple of the denominators, or 0 if it does not fit 64 bits.
std::int64_t common_denominator(const IndexSum& sum) {
  std::int64_t out = 1;
  const auto include = [&](Rational each) {
    const std::int64_t d = each.is_exact() ? each.denominator() : 0;
    if (out == 0 || d == 0 || __builtin_mul_overflow(out / std::gcd(out, d), d, &out)) out = 0;
  };
  for (const auto& each : sum.indices) include(each.second);
  for (const auto& each : sum.sequences) include(each.second);
  for (const auto& each : sum.quotients) include(each.coefficient);
  for (const auto& each : sum.rest.terms()) include(each.second);
  return out;
}

// Divides a whole sum by the greatest common divisor of the coefficients of all that varies, if sizes allow it; the
// constant is rounded down: 2*index(T) - 3 >= 0 is index(T) - 2 >= 0.
IndexSum divide_by_common_factor(const IndexSum& sum) {
  std::int64_t factor = 0;
  const auto include = [&](Rational c) { factor = std::gcd(factor, c.numerator()); };
  for (const auto& each : sum.indices) include(each.second);
  for (const auto& each : sum.sequences) include(each.second);
  for (const auto& each : sum.quotients) include(each.coefficient);
  std::int64_t constant = 0;
  for (const auto& [monomial, c] : sum.rest.terms())
    if (monomial.empty())
      constant = c.numerator();
    else
      include(c);
  if (factor <= 1) return sum;
  const std::int64_t remainder = ((constant % factor) + factor) % factor;
  IndexSum out = sum;
  out.rest += Polynomial(Rational(-remainder));
  return out.times(Rational(1, factor));
}

struct SignedTerm {
  Rational coefficient;
  std::string text;
};

std::string parenthesize_sum(const std::string& text) {
  return text.find(' ') == std::string::npos ? text : "(" + text + ")";
}

std::vector<SignedTerm> list_terms(const IndexSum& sum) {
  std::vector<SignedTerm> out;
  for (const auto& [v, c] : sum.indices) out.push_back({c, fmt::format("index({})", v)});
  for (const auto& [v, c] : sum.sequences) out.push_back({c, fmt::format("sequence({})", v)});
  for (const auto& q : sum.quotients)
    out.push_back({q.coefficient, fmt::format("floor({}/{})", parenthesize_sum(q.dividend->to_string()), q.divisor)});
  for (const auto& [monomial, c] : sum.rest.terms())
    out.push_back({c, Polynomial::make_term(1,
                                            [&] {
                                              std::vector<std::string> symbols;
                                              for (const auto& [symbol, power] : monomial)
                                                symbols.insert(symbols.end(), static_cast<std::size_t>(power), symbol);
                                              return symbols;
                                            }())
                          .to_string()});
  return out;
}

std::string format_term(const SignedTerm& term, Rational coefficient) {
  if (coefficient == Rational(1)) return term.text;
  return term.text == "1" ? coefficient.to_string() : fmt::format("{}*{}", coefficient.to_string(), term.text);
}

// Returns the sum of the terms with the given sign, without it; "0" if there are none.
std::string format_side(const std::vector<SignedTerm>& terms, bool positive) {
  std::string out;
  for (const SignedTerm& term : terms) {
    if (!term.coefficient.is_exact() || (term.coefficient > Rational(0)) != positive) continue;
    out += (out.empty() ? "" : " + ") + format_term(term, positive ? term.coefficient : -term.coefficient);
  }
  return out.empty() ? "0" : out;
}

}  // namespace

IndexSum IndexSum::plus(const IndexSum& o, Rational factor) const {
  IndexSum out = *this;
  if (factor.is_zero()) return out;
  for (const auto& [v, c] : o.indices) add_coefficient(out.indices, v, c * factor);
  for (const auto& [v, c] : o.sequences) add_coefficient(out.sequences, v, c * factor);
  for (const Quotient& q : o.quotients) {
    const auto known = std::find_if(out.quotients.begin(), out.quotients.end(),
                                    [&](const Quotient& each) { return same_quotient(each, q); });
    if (known == out.quotients.end())
      out.quotients.push_back({q.coefficient * factor, q.dividend, q.divisor});
    else if (known->coefficient = known->coefficient + q.coefficient * factor; known->coefficient.is_zero())
      out.quotients.erase(known);
  }
  out.rest += o.rest * Polynomial(factor);
  return out;
}

void IndexSum::add_variables(std::set<std::string>& out) const {
  for (const auto& each : indices) out.insert(each.first);
  for (const auto& each : sequences) out.insert(each.first);
  for (const Quotient& q : quotients) q.dividend->add_variables(out);
}

IndexSum IndexSum::rename(const std::map<std::string, std::string>& names) const {
  const auto new_name = [&](const std::string& v) { return names.contains(v) ? names.at(v) : v; };
  IndexSum out{.rest = rest};
  for (const auto& [v, c] : indices) add_coefficient(out.indices, new_name(v), c);
  for (const auto& [v, c] : sequences) add_coefficient(out.sequences, new_name(v), c);
  for (const Quotient& q : quotients)
    out.quotients.push_back({q.coefficient, std::make_shared<IndexSum>(q.dividend->rename(names)), q.divisor});
  return out;
}

bool IndexSum::is_exact() const { return common_denominator(*this) != 0; }

std::string IndexSum::to_string() const {
  const std::vector<SignedTerm> terms = list_terms(*this);
  const std::string below = format_side(terms, false);
  const std::string above = format_side(terms, true);
  if (below == "0") return above;
  std::string minus;
  for (const SignedTerm& term : terms)
    if (term.coefficient.is_exact() && term.coefficient < Rational(0))
      minus += " - " + format_term(term, -term.coefficient);
  return above == "0" ? minus.substr(1) : above + minus;
}

// floor((a + b)/c) = a/c + floor(b/c) for multiples a of c. A quotient inside takes its divisor's product.
IndexSum round_down(const IndexSum& sum) {
  const std::int64_t divisor = common_denominator(sum);
  if (divisor == 0) return {.rest = Polynomial(Rational(INT64_MAX) * 2)};  // Inexact
  if (divisor == 1) return sum;
  IndexSum whole, dividend;
  const auto separate = [&](Rational c, const IndexSum& unit) {
    (c.denominator() == 1 ? whole : dividend) = (c.denominator() == 1 ? whole : dividend).plus(unit, c);
  };
  for (const auto& [v, c] : sum.indices) separate(c, {.indices = {{v, 1}}});
  for (const auto& [v, c] : sum.sequences) separate(c, {.sequences = {{v, 1}}});
  for (const auto& q : sum.quotients) separate(q.coefficient, {.quotients = {{1, q.dividend, q.divisor}}});
  for (const auto& [monomial, c] : sum.rest.terms()) {
    std::vector<std::string> symbols;
    for (const auto& [symbol, power] : monomial) symbols.insert(symbols.end(), static_cast<std::size_t>(power), symbol);
    separate(c, {.rest = Polynomial::make_term(1, symbols)});
  }
  IndexSum::Quotient out{1, std::make_shared<IndexSum>(dividend.times(divisor)), divisor};
  const bool one_quotient = out.dividend->indices.empty() && out.dividend->sequences.empty() &&
                            out.dividend->rest.is_zero() && out.dividend->quotients.size() == 1;
  if (one_quotient && out.dividend->quotients[0].coefficient == Rational(1)) {
    const IndexSum::Quotient inner = out.dividend->quotients[0];
    if (!__builtin_mul_overflow(inner.divisor, divisor, &out.divisor)) out.dividend = inner.dividend;
  }
  whole.quotients.push_back(std::move(out));
  return whole;
}

Formula::Formula(bool value)
    : node_(std::make_shared<Node>(Node{.kind = value ? Kind::all : Kind::none, .text = value ? "all" : "none"})) {}

Formula Formula::at_least_zero(const IndexSum& sum) {
  const std::int64_t scale = std::max<std::int64_t>(1, common_denominator(sum));
  IndexSum whole = divide_by_common_factor(sum.times(scale));
  if (whole.is_size())
    if (const auto value = whole.rest.as_constant(); value && value->is_exact()) return Formula(*value >= Rational(0));
  const std::vector<SignedTerm> terms = list_terms(whole);
  Formula out;
  std::string text = fmt::format("{} <= {}", format_side(terms, false), format_side(terms, true));
  out.node_ = std::make_shared<Node>(
      Node{.kind = Kind::at_least_zero, .sum = std::move(whole), .size = 1, .text = std::move(text)});
  return out;
}

Formula Formula::equal_to_zero(const IndexSum& sum) { return at_least_zero(sum) && at_least_zero(sum.times(-1)); }

Formula Formula::make(Kind kind, std::vector<Formula> parts) {
  if (parts.empty()) return Formula(kind == Kind::conjunction);
  if (parts.size() == 1) return parts.front();
  Node node{.kind = kind};
  for (const Formula& part : parts) {
    node.size += part.size();
    const bool nested = part.kind() == Kind::conjunction || part.kind() == Kind::disjunction;
    if (!node.text.empty()) node.text += kind == Kind::conjunction ? " and " : " or ";
    node.text += nested ? "(" + part.text() + ")" : part.text();
  }
  node.parts = std::move(parts);
  Formula out;
  out.node_ = std::make_shared<Node>(std::move(node));
  return out;
}

// Returns the terms of a formula of that kind; any other formula is its only term.
static std::vector<Formula> terms_of(Formula::Kind kind, const Formula& formula) {
  return formula.kind() == kind ? formula.parts() : std::vector<Formula>{formula};
}

// Simplifies (A and B) or (A and not B) to A; the same with the kinds exchanged. Returns false if that is impossible.
static bool merge_opposites(Formula::Kind inner, Formula& a, const Formula& b) {
  std::vector<Formula> left = terms_of(inner, a), right = terms_of(inner, b);
  if (left.size() != right.size()) return false;
  std::vector<Formula> common, only_left, only_right;
  for (const Formula& each : left) (contains(right, each) ? common : only_left).push_back(each);
  for (const Formula& each : right)
    if (!contains(left, each)) only_right.push_back(each);
  if (only_left.size() != 1 || only_right.size() != 1 || !(only_left[0] == !only_right[0])) return false;
  a = Formula(inner == Formula::Kind::conjunction);
  for (const Formula& each : common) a = inner == Formula::Kind::conjunction ? a && each : a || each;
  return true;
}

Formula Formula::join(Kind kind, const Formula& a, const Formula& b) {
  const bool is_conjunction = kind == Kind::conjunction;
  const Kind other = is_conjunction ? Kind::disjunction : Kind::conjunction;
  std::vector<Formula> parts = terms_of(kind, a);
  for (const Formula& added : terms_of(kind, b)) {
    Formula part = added;
    for (std::size_t i = 0; i < parts.size();) {
      if (parts[i] == part) {
        parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(i));
      } else if (merge_opposites(other, part, parts[i]) || contains(terms_of(other, part), parts[i])) {
        if (contains(terms_of(other, part), parts[i])) part = parts[i];  // A or (A and B) is A
        parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(i));
        i = 0;
      } else if (contains(terms_of(other, parts[i]), part)) {
        parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(i));
      } else {
        ++i;
      }
    }
    if (part.kind() == (is_conjunction ? Kind::none : Kind::all)) return part;
    if (part.kind() != (is_conjunction ? Kind::all : Kind::none)) parts.push_back(part);
  }
  std::sort(parts.begin(), parts.end(), [](const Formula& x, const Formula& y) { return x.text() < y.text(); });
  return make(kind, std::move(parts));
}

Formula operator&&(const Formula& a, const Formula& b) {
  if (a.is_all() || b.is_none()) return b;
  if (b.is_all() || a.is_none()) return a;
  return Formula::join(Formula::Kind::conjunction, a, b);
}

Formula operator||(const Formula& a, const Formula& b) {
  if (a.is_none() || b.is_all()) return b;
  if (b.is_none() || a.is_all()) return a;
  return Formula::join(Formula::Kind::disjunction, a, b);
}

Formula Formula::operator!() const {
  if (is_all() || is_none()) return Formula(is_none());
  if (kind() == Kind::at_least_zero) return at_least_zero(sum().times(-1).plus({.rest = Polynomial(-1)}));
  Formula out(kind() == Kind::disjunction);
  for (const Formula& part : parts()) out = kind() == Kind::disjunction ? out && !part : out || !part;
  return out;
}

bool Formula::implies(const Formula& o) const {
  const std::vector<Formula> own = terms_of(Kind::conjunction, *this), others = terms_of(Kind::conjunction, o);
  return std::all_of(others.begin(), others.end(),
                     [&](const Formula& each) { return each.is_all() || contains(own, each); });
}

std::set<std::string> Formula::variables() const {
  std::set<std::string> out;
  if (kind() == Kind::at_least_zero) sum().add_variables(out);
  for (const Formula& part : parts()) out.merge(part.variables());
  return out;
}

Formula Formula::rename(const std::map<std::string, std::string>& names) const {
  if (kind() == Kind::at_least_zero) return at_least_zero(sum().rename(names));
  if (is_all() || is_none()) return *this;
  Formula out(kind() == Kind::conjunction);
  for (const Formula& part : parts())
    out = kind() == Kind::conjunction ? out && part.rename(names) : out || part.rename(names);
  return out;
}

}  // namespace ridge
