// A polynomial is a map from monomials to coefficients: 2*B*D + D*F/2 is {B*D: 2, D*F: 1/2}. `evaluate` uses
// 128-bit integers and checks every step for overflow: 2*B*D*F with B = D = F = 4194304 is 2^67.
#include "ridge/symbol/polynomial.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <string_view>

#include "ridge/base/check.h"

namespace ridge {
namespace {

Monomial merge_monomials(const Monomial& a, const Monomial& b) {
  Monomial out;
  out.reserve(a.size() + b.size());
  auto x = a.begin(), y = b.begin();
  while (x != a.end() || y != b.end()) {
    if (y == b.end() || (x != a.end() && x->first < y->first))
      out.push_back(*x++);
    else if (x == a.end() || y->first < x->first)
      out.push_back(*y++);
    else {
      out.emplace_back(x->first, x->second + y->second);
      ++x;
      ++y;
    }
  }
  return out;
}

// Returns false on overflow of 128 bits.
bool multiply_checked(__int128& value, __int128 factor) { return !__builtin_mul_overflow(value, factor, &value); }

// Returns the term's value times `denominator`, or nullopt if it exceeds 128 bits or a symbol has no value.
std::optional<__int128> evaluate_term(const Monomial& monomial, Rational coefficient, std::int64_t denominator,
                                      const Bindings& values) {
  __int128 value = static_cast<__int128>(coefficient.numerator()) * (denominator / coefficient.denominator());
  for (const auto& [symbol, power] : monomial) {
    const auto size = values.find(symbol);
    if (size == values.end()) return std::nullopt;
    for (int i = 0; i < power; ++i)
      if (!multiply_checked(value, size->second)) return std::nullopt;
  }
  return value;
}

// Returns the sum rounded up, or nullopt if it exceeds 128 bits, a symbol has no value, or a coefficient is not exact.
std::optional<Count> evaluate_terms(const std::map<Monomial, Rational>& terms, const Bindings& values) {
  std::int64_t denominator = 1;
  for (const auto& term : terms) {
    if (!term.second.is_exact()) return std::nullopt;
    const __int128 common = static_cast<__int128>(denominator) / std::gcd(denominator, term.second.denominator()) *
                            term.second.denominator();
    if (common > INT64_MAX) return std::nullopt;
    denominator = static_cast<std::int64_t>(common);
  }
  __int128 sum = 0;  // in units of 1/denominator
  for (const auto& [monomial, coefficient] : terms) {
    const auto value = evaluate_term(monomial, coefficient, denominator, values);
    if (!value || __builtin_add_overflow(sum, *value, &sum)) return std::nullopt;
  }
  const __int128 floor = sum / denominator;
  return floor + (sum > floor * denominator);
}

Error too_large_error(const Polynomial& polynomial, const Bindings& values, const char* limit) {
  std::string sizes;
  for (const std::string& symbol : polynomial.symbols())
    if (values.contains(symbol))
      sizes += fmt::format("{}{} = {}", sizes.empty() ? " with " : ", ", symbol, values.at(symbol));
  return input_error(fmt::format("expected a count below {}, found {}{}", limit, polynomial.to_string(), sizes),
                     "use smaller sizes");
}

Status check_values(const Polynomial& polynomial, const Bindings& values) {
  for (const std::string& symbol : polynomial.symbols())
    if (!values.contains(symbol))
      return input_error(fmt::format("dimension '{}' has no value", symbol),
                         fmt::format("give it one with -d {}=…", symbol));
  return Done{};
}

// Returns the symbols of all terms, sorted, without duplicates.
std::vector<std::string_view> sorted_symbols(const std::map<Monomial, Rational>& terms) {
  std::vector<std::string_view> found;
  for (const auto& term : terms)
    for (const auto& factor : term.first) found.push_back(factor.first);
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

// Symbol with its rank in the printed order; symbols of equal rank are sorted by name.
using OrderedSymbol = std::pair<std::size_t, std::string_view>;

struct SymbolRanks {
  std::vector<std::string_view> names;  // sorted
  std::vector<std::size_t> ranks;       // rank of each name
  std::size_t* find_rank(std::string_view name) {
    const auto at = std::lower_bound(names.begin(), names.end(), name);
    return at == names.end() || *at != name ? nullptr : &ranks[at - names.begin()];
  }
};

// Returns one bit that depends on the name. Names with different bits differ, so that most entries of a long order are
// skipped without a binary search.
std::uint64_t name_hash_bit(std::string_view name) {
  if (name.empty()) return 1;
  const auto letter = [](char c) { return static_cast<unsigned>(static_cast<unsigned char>(c)); };
  return std::uint64_t{1} << ((name.size() * 7 + letter(name.front()) * 3 + letter(name.back())) % 64);
}

SymbolRanks rank_symbols(const Polynomial& polynomial, std::span<const std::string> order) {
  SymbolRanks out{sorted_symbols(polynomial.terms()), {}};
  out.ranks.assign(out.names.size(), order.size());
  std::uint64_t hash_bits = 0;
  for (const std::string_view symbol : out.names) hash_bits |= name_hash_bit(symbol);
  std::size_t left = out.names.size();
  for (std::size_t i = 0; i < order.size() && left > 0; ++i) {
    if ((hash_bits & name_hash_bit(order[i])) == 0) continue;
    std::size_t* const rank = out.find_rank(order[i]);
    if (rank == nullptr || *rank != order.size()) continue;
    *rank = i;
    --left;
  }
  return out;
}

std::vector<OrderedSymbol> order_symbols(const Monomial& monomial, SymbolRanks& ranks) {
  std::vector<OrderedSymbol> all;
  for (const auto& [symbol, power] : monomial)
    all.insert(all.end(), static_cast<std::size_t>(power), OrderedSymbol(*ranks.find_rank(symbol), symbol));
  std::sort(all.begin(), all.end());
  return all;
}

// Orders B*D before B*F, and a product before its prefixes: B*D, B, 1.
bool is_printed_before(const std::vector<OrderedSymbol>& a, const std::vector<OrderedSymbol>& b) {
  const auto [x, y] = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  if (x == a.end() || y == b.end()) return a.size() > b.size();
  return *x < *y;
}

// Returns the term without its sign.
std::string format_term(const std::vector<OrderedSymbol>& symbols, Rational coefficient) {
  std::string magnitude = (coefficient.is_exact() ? Rational(coefficient.numerator()) : coefficient).to_string();
  if (magnitude.starts_with('-')) magnitude.erase(0, 1);
  std::string text = magnitude == "1" && !symbols.empty() ? "" : magnitude;
  for (const OrderedSymbol& symbol : symbols) (text += text.empty() ? "" : "*") += symbol.second;
  return coefficient.denominator() <= 1 ? text : text + "/" + std::to_string(coefficient.denominator());
}

}  // namespace

Polynomial::Polynomial(Rational constant) { add_term({}, constant); }

Polynomial Polynomial::make_symbol(const std::string& name) { return make_term(1, {name}); }

Polynomial Polynomial::make_term(Rational coefficient, std::vector<std::string> symbols) {
  std::sort(symbols.begin(), symbols.end());
  Monomial monomial;
  monomial.reserve(symbols.size());
  for (std::string& symbol : symbols) {
    if (!monomial.empty() && monomial.back().first == symbol)
      ++monomial.back().second;
    else
      monomial.emplace_back(std::move(symbol), 1);
  }
  Polynomial p;
  p.add_term(monomial, coefficient);
  return p;
}

void Polynomial::add_term(const Monomial& monomial, Rational coefficient) {
  const auto found = terms_.try_emplace(monomial).first;
  found->second = found->second + coefficient;
  if (found->second.is_zero()) terms_.erase(found);
}

Polynomial& Polynomial::operator+=(const Polynomial& o) {
  for (const auto& [monomial, coefficient] : o.terms_) add_term(monomial, coefficient);  // `o` may be *this
  return *this;
}

Polynomial Polynomial::operator+(const Polynomial& o) const {
  Polynomial sum = *this;
  return sum += o;
}

Polynomial Polynomial::operator-(const Polynomial& o) const {
  Polynomial difference = *this;
  for (const auto& [monomial, coefficient] : o.terms_) difference.add_term(monomial, -coefficient);
  return difference;
}

Polynomial Polynomial::operator*(const Polynomial& o) const {
  Polynomial result;
  for (const auto& [a, x] : terms_)
    for (const auto& [b, y] : o.terms_) result.add_term(merge_monomials(a, b), x * y);
  return result;
}

bool Polynomial::is_exact() const {
  return std::all_of(terms_.begin(), terms_.end(), [](const auto& term) { return term.second.is_exact(); });
}

std::optional<Rational> Polynomial::as_constant() const {
  if (terms_.empty()) return Rational(0);
  if (terms_.size() == 1 && terms_.begin()->first.empty()) return terms_.begin()->second;
  return std::nullopt;
}

std::vector<std::string> Polynomial::symbols() const {
  const std::vector<std::string_view> found = sorted_symbols(terms_);
  return {found.begin(), found.end()};
}

int Polynomial::degree_in(const std::string& symbol) const {
  int degree = 0;
  for (const auto& term : terms_)
    for (const auto& [name, power] : term.first)
      if (name == symbol) degree = std::max(degree, power);
  return degree;
}

std::vector<Polynomial> Polynomial::collect_by_power(const std::string& symbol) const {
  std::vector<Polynomial> by_power(static_cast<std::size_t>(degree_in(symbol)) + 1);
  for (const auto& [monomial, coefficient] : terms_) {
    std::size_t power = 0;
    Monomial rest;
    for (const auto& factor : monomial) {
      if (factor.first == symbol)
        power = static_cast<std::size_t>(factor.second);
      else
        rest.push_back(factor);
    }
    by_power[power].add_term(rest, coefficient);
  }
  return by_power;
}

Polynomial Polynomial::substitute(const std::string& symbol, const Polynomial& replacement) const {
  Polynomial result, power = 1;
  for (const Polynomial& coefficient : collect_by_power(symbol)) {
    result = result + coefficient * power;
    power = power * replacement;
  }
  return result;
}

bool Polynomial::has_all_values(const Bindings& values) const {
  for (const auto& term : terms_)
    for (const auto& factor : term.first)
      if (!values.contains(factor.first)) return false;
  return true;
}

Result<std::int64_t> Polynomial::evaluate(const Bindings& values) const {
  const auto value = evaluate_terms(terms_, values);
  if (value && *value <= INT64_MAX && *value >= INT64_MIN) return static_cast<std::int64_t>(*value);
  RIDGE_TRY_STATUS(check_values(*this, values));
  return too_large_error(*this, values, "2^63");
}

Result<Count> Polynomial::evaluate_count(const Bindings& values) const {
  constexpr double limit = 1e38;
  const auto value = evaluate_terms(terms_, values);
  if (value && static_cast<double>(*value) <= limit && static_cast<double>(*value) >= -limit) return *value;
  RIDGE_TRY_STATUS(check_values(*this, values));
  return too_large_error(*this, values, "10^38");
}

double Polynomial::evaluate_double(const std::map<std::string, double>& values) const {
  double sum = 0;
  for (const auto& [monomial, coefficient] : terms_) {
    double term = coefficient.to_double();
    for (const auto& [symbol, power] : monomial) {
      const auto found = values.find(symbol);
      RIDGE_CHECK(found != values.end(), "'" + symbol + "' has no value in " + to_string());
      for (int i = 0; i < power; ++i) term *= found->second;
    }
    sum += term;
  }
  return sum;
}

std::string Polynomial::to_string(std::span<const std::string> order) const {
  std::vector<std::pair<std::vector<OrderedSymbol>, Rational>> sorted;
  SymbolRanks in_order = rank_symbols(*this, order);
  for (const auto& [monomial, coefficient] : terms_)
    sorted.emplace_back(order_symbols(monomial, in_order), coefficient);
  std::sort(sorted.begin(), sorted.end(),
            [](const auto& a, const auto& b) { return is_printed_before(a.first, b.first); });
  std::string text;
  for (const auto& [symbols, coefficient] : sorted) {
    const bool negative = coefficient.numerator() < 0;
    const char* const first = negative ? "-" : "";
    const char* const further = negative ? " - " : " + ";
    text += text.empty() ? first : further;
    text += format_term(symbols, coefficient);
  }
  return text.empty() ? "0" : text;
}

}  // namespace ridge
