// Exact fractions of 64-bit integers, for the coefficients of formulas (int4 weights are D*F/2 bytes).
// Always in lowest terms with a positive denominator. A fraction that leaves 64 bits (a program may state extents as
// literals, and their product can be anything) becomes the one value that is not exact(); whatever is computed from it
// is not exact either, as with a NaN, so that nobody can take it for a number.
#pragma once

#include <compare>
#include <cstdint>
#include <limits>
#include <string>

#include "ridge/base/check.h"

namespace ridge {

class Rational {
 public:
  constexpr Rational(std::int64_t n = 0) : num_(n) {}
  Rational(std::int64_t n, std::int64_t d) { *this = of(n, d); }

  bool exact() const { return den_ != 0; }
  std::int64_t num() const { return num_; }
  std::int64_t den() const { return den_; }
  double real() const {
    return exact() ? static_cast<double>(num_) / static_cast<double>(den_) : std::numeric_limits<double>::quiet_NaN();
  }
  bool zero() const { return num_ == 0 && exact(); }
  std::string text() const {
    if (!exact()) return "(beyond 2^63)";
    return den_ == 1 ? std::to_string(num_) : std::to_string(num_) + "/" + std::to_string(den_);
  }

  // 64-bit factors keep every product below within 126 bits and every sum within 127. What is not exact has the
  // denominator 0, and so has whatever is computed from it.
  Rational operator+(Rational o) const {
    return of(static_cast<__int128>(num_) * o.den_ + static_cast<__int128>(o.num_) * den_,
              static_cast<__int128>(den_) * o.den_);
  }
  Rational operator-() const { return of(-static_cast<__int128>(num_), den_); }
  Rational operator-(Rational o) const { return *this + -o; }
  Rational operator*(Rational o) const {
    return of(static_cast<__int128>(num_) * o.num_, static_cast<__int128>(den_) * o.den_);
  }
  Rational operator/(Rational o) const {
    RIDGE_CHECK(!o.zero(), "division of " + text() + " by zero");
    return of(static_cast<__int128>(num_) * o.den_, static_cast<__int128>(den_) * o.num_);
  }
  bool operator==(const Rational&) const = default;
  // Both exact.
  std::strong_ordering operator<=>(const Rational& o) const {
    RIDGE_CHECK(exact() && o.exact(), text() + " against " + o.text());
    return static_cast<__int128>(num_) * o.den_ <=> static_cast<__int128>(o.num_) * den_;
  }

 private:
  static Rational inexact() {
    Rational r;
    r.den_ = 0;
    return r;
  }
  static Rational of(__int128 n, __int128 d) {
    if (d < 0) {
      n = -n;
      d = -d;
    }
    __int128 a = n < 0 ? -n : n;
    if (d == 1) a = 1;
    __int128 b = a == 1 ? 0 : d;
    while (b != 0) {
      const __int128 r = a % b;
      a = b;
      b = r;
    }
    if (a > 1) {
      n /= a;
      d /= a;
    }
    if (n < INT64_MIN || n > INT64_MAX || d <= 0 || d > INT64_MAX) return inexact();
    Rational result;
    result.num_ = static_cast<std::int64_t>(n);
    result.den_ = static_cast<std::int64_t>(d);
    return result;
  }

  std::int64_t num_ = 0, den_ = 1;
};

}  // namespace ridge
