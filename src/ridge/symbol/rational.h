// Exact fractions of 64-bit integers, for the coefficients of formulas (int4 weights have D*F/2 bytes). They are in
// lowest terms with a positive denominator. On overflow of 64 bits (products of literal sizes can be large) the result
// is a special value for which `is_exact`() is false. Like a NaN it propagates through all operations.
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
  Rational(std::int64_t n, std::int64_t d) { *this = reduce_fraction(n, d); }

  bool is_exact() const { return den_ != 0; }
  std::int64_t numerator() const { return num_; }
  std::int64_t denominator() const { return den_; }
  double to_double() const {
    return is_exact() ? static_cast<double>(num_) / static_cast<double>(den_)
                      : std::numeric_limits<double>::quiet_NaN();
  }
  bool is_zero() const { return num_ == 0 && is_exact(); }
  std::string to_string() const {
    if (!is_exact()) return "(beyond 2^63)";
    return den_ == 1 ? std::to_string(num_) : std::to_string(num_) + "/" + std::to_string(den_);
  }

  // Products of 64-bit factors fit 126 bits, their sums 127. An inexact value has the denominator 0, which propagates
  // through all operations.
  Rational operator+(Rational o) const {
    return reduce_fraction(static_cast<__int128>(num_) * o.den_ + static_cast<__int128>(o.num_) * den_,
                           static_cast<__int128>(den_) * o.den_);
  }
  Rational operator-() const { return reduce_fraction(-static_cast<__int128>(num_), den_); }
  Rational operator-(Rational o) const { return *this + -o; }
  Rational operator*(Rational o) const {
    return reduce_fraction(static_cast<__int128>(num_) * o.num_, static_cast<__int128>(den_) * o.den_);
  }
  Rational operator/(Rational o) const {
    RIDGE_CHECK(!o.is_zero(), "division of " + to_string() + " by zero");
    return reduce_fraction(static_cast<__int128>(num_) * o.den_, static_cast<__int128>(den_) * o.num_);
  }
  bool operator==(const Rational&) const = default;
  // Requires that both are exact.
  std::strong_ordering operator<=>(const Rational& o) const {
    RIDGE_CHECK(is_exact() && o.is_exact(), to_string() + " against " + o.to_string());
    return static_cast<__int128>(num_) * o.den_ <=> static_cast<__int128>(o.num_) * den_;
  }

 private:
  static Rational make_inexact() {
    Rational r;
    r.den_ = 0;
    return r;
  }
  static Rational reduce_fraction(__int128 n, __int128 d) {
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
    if (n < INT64_MIN || n > INT64_MAX || d <= 0 || d > INT64_MAX) return make_inexact();
    Rational result;
    result.num_ = static_cast<std::int64_t>(n);
    result.den_ = static_cast<std::int64_t>(d);
    return result;
  }

  std::int64_t num_ = 0, den_ = 1;
};

}  // namespace ridge
