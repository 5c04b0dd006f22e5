// Polynomials in dimensions with exact coefficients: 2*B*D*F FLOPs, 2*B*D + 2*D*F + 2*B*F bytes. Immutable values.
// Dimensions are at least 1, which is what lets thresholds be solved without case distinctions.
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

// A product of symbols with positive exponents, sorted by name: {{"B", 1}, {"D", 2}} is B*D^2; empty is 1.
using Monomial = std::vector<std::pair<std::string, int>>;

// A number of FLOPs or bytes: exact up to 10^38.
using Count = __int128;

class Polynomial {
 public:
  Polynomial() = default;  // 0
  Polynomial(Rational constant);
  Polynomial(std::int64_t constant) : Polynomial(Rational(constant)) {}
  static Polynomial symbol(const std::string& name);
  // coefficient * symbols; a symbol that stands twice is squared.
  static Polynomial product(Rational coefficient, std::vector<std::string> symbols);

  Polynomial& operator+=(const Polynomial& o);  // takes as long as `o` is, however long the sum
  Polynomial operator+(const Polynomial& o) const;
  Polynomial operator-(const Polynomial& o) const;
  Polynomial operator*(const Polynomial& o) const;
  bool operator==(const Polynomial&) const = default;

  bool zero() const { return terms_.empty(); }
  bool exact() const;                         // every coefficient fits 64 bits
  std::optional<Rational> constant() const;   // its value where it holds no symbol
  std::vector<std::string> symbols() const;   // sorted, each once
  bool all_in(const Bindings& values) const;  // every symbol has a value
  int degree(const std::string& symbol) const;
  const std::map<Monomial, Rational>& terms() const { return terms_; }
  // Coefficients by power of `symbol`: of 2*B*D + D in D: {0, 2*B + 1}.
  std::vector<Polynomial> collect(const std::string& symbol) const;
  Polynomial substitute(const std::string& symbol, const Polynomial& by) const;

  // The value; an error names the first symbol (by name) that has none, or says that the value leaves 2^63 and with
  // which sizes. A value that is no whole number (int4 with an odd count) is rounded up.
  Result<std::int64_t> evaluate(const Bindings& values) const;
  // The same up to 10^38.
  Result<Count> count(const Bindings& values) const;
  // The same in floating point, without limits; every symbol must have a value.
  double real(const std::map<std::string, double>& values) const;

  // "2*B*D + 2*B*F + D*F/2 + 1": symbols, and by them terms, in the order in which `order` lists the symbols, others
  // by name after them. A power is written out (D*D), so that any language can evaluate the text.
  std::string text(std::span<const std::string> order = {}) const;

 private:
  void add(const Monomial& monomial, Rational coefficient);

  std::map<Monomial, Rational> terms_;  // no zero coefficients
};

}  // namespace ridge
