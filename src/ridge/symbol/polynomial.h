// Polynomials in dimensions with exact coefficients: 2*B*D*F FLOPs, 2*B*D + 2*D*F + 2*B*F bytes. Dimensions are at
// least 1, so that inequalities can be solved without a case distinction by sign.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ridge/base/result.h"
#include "ridge/symbol/dimensions.h"
#include "ridge/symbol/rational.h"

namespace ridge {

// Product of symbols with positive exponents, sorted by name: {{"B", 1}, {"D", 2}} is B*D^2; {} is 1.
using Monomial = std::vector<std::pair<std::string, int>>;

// Number of FLOPs or bytes, exact up to 10^38.
using Count = __int128;

class Polynomial {
 public:
  Polynomial() = default;  // 0
  Polynomial(Rational constant);
  Polynomial(std::int64_t constant) : Polynomial(Rational(constant)) {}
  static Polynomial make_symbol(const std::string& name);
  // Returns coefficient * symbols; a symbol listed twice is squared.
  static Polynomial make_term(Rational coefficient, std::vector<std::string> symbols);

  Polynomial& operator+=(const Polynomial& o);  // time is proportional to the terms of `o`, not of the sum
  Polynomial operator+(const Polynomial& o) const;
  Polynomial operator-(const Polynomial& o) const;
  Polynomial operator*(const Polynomial& o) const;
  bool operator==(const Polynomial&) const = default;

  bool is_zero() const { return terms_.empty(); }
  bool is_exact() const;                              // every coefficient fits 64 bits
  std::optional<Rational> as_constant() const;        // value if there are no symbols, else nullopt
  std::vector<std::string> symbols() const;           // sorted, without duplicates
  bool has_all_values(const Bindings& values) const;  // every symbol has a value
  int degree_in(const std::string& symbol) const;
  const std::map<Monomial, Rational>& terms() const { return terms_; }
  // Returns the coefficients by power of `symbol`: {0, 2*B + 1} for 2*B*D + D in D.
  std::vector<Polynomial> collect_by_power(const std::string& symbol) const;
  Polynomial substitute(const std::string& symbol, const Polynomial& replacement) const;

  // Returns the value, rounded up if it is not a whole number (an odd number of int4 elements). An error names the
  // first symbol, by name, that has no value, or the sizes if the value exceeds 63 bits.
  Result<std::int64_t> evaluate(const Bindings& values) const;
  // Same as `evaluate`, up to 10^38.
  Result<Count> evaluate_count(const Bindings& values) const;
  // Same in floating point, without limit; every symbol must have a value.
  double evaluate_double(const std::map<std::string, double>& values) const;

  // Returns text such as "2*B*D + 2*B*F + D*F/2 + 1". Symbols and terms are sorted by `order`; symbols not in it follow
  // by name. Powers are written as products (D*D), so that any language can evaluate the text.
  std::string to_string(std::span<const std::string> order = {}) const;

 private:
  void add_term(const Monomial& monomial, Rational coefficient);

  std::map<Monomial, Rational> terms_;  // no zero coefficients
};

}  // namespace ridge
