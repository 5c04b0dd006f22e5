// Exact fractions of 64-bit integers, for the coefficients of formulas (int4 weights are D*F/2 bytes).
// Always in lowest terms with a positive denominator; an overflow is a bug of ours and aborts: coefficients stay small.
#pragma once

#include <compare>
#include <cstdint>
#include <numeric>
#include <string>

#include "ridge/base/check.h"

namespace ridge {

class Rational {
 public:
  constexpr Rational(std::int64_t n = 0) : num_(n) {}
  Rational(std::int64_t n, std::int64_t d) { assign(n, d); }

  std::int64_t num() const { return num_; }
  std::int64_t den() const { return den_; }
  double real() const { return static_cast<double>(num_) / static_cast<double>(den_); }
  bool zero() const { return num_ == 0; }
  std::string text() const {
    return den_ == 1 ? std::to_string(num_) : std::to_string(num_) + "/" + std::to_string(den_);
  }

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
  std::strong_ordering operator<=>(const Rational& o) const {
    return static_cast<__int128>(num_) * o.den_ <=> static_cast<__int128>(o.num_) * den_;
  }

 private:
  void assign(__int128 n, __int128 d) {
    if (d < 0) {
      n = -n;
      d = -d;
    }
    __int128 a = n < 0 ? -n : n, b = d;
    while (b != 0) {
      const __int128 r = a % b;
      a = b;
      b = r;
    }
    if (a > 1) {
      n /= a;
      d /= a;
    }
    RIDGE_CHECK(n >= INT64_MIN && n <= INT64_MAX && d > 0 && d <= INT64_MAX, "a coefficient left 64 bits");
    num_ = static_cast<std::int64_t>(n);
    den_ = static_cast<std::int64_t>(d);
  }
  static Rational of(__int128 n, __int128 d) {
    Rational r;
    r.assign(n, d);
    return r;
  }

  std::int64_t num_ = 0, den_ = 1;
};

}  // namespace ridge
