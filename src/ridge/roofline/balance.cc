#include "ridge/roofline/balance.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "ridge/base/check.h"

namespace ridge {
namespace {

// An unsigned number of 512 bits, the lowest limb first: enough for a count (127 bits) times a mantissa (53) times the
// power of two between two doubles, which is cut off at 256 because by then it decides alone.
using Wide = std::array<std::uint64_t, 8>;

Wide wide(unsigned __int128 count, std::uint64_t mantissa) {
  Wide out{static_cast<std::uint64_t>(count), static_cast<std::uint64_t>(count >> 64)};
  unsigned __int128 carry = 0;
  for (std::uint64_t& limb : out) {
    carry += static_cast<unsigned __int128>(limb) * mantissa;
    limb = static_cast<std::uint64_t>(carry);
    carry >>= 64;
  }
  return out;
}

Wide shifted(const Wide& value, int bits) {
  Wide out{};
  const std::size_t limbs = static_cast<std::size_t>(bits / 64);
  for (std::size_t i = limbs; i < out.size(); ++i) {
    out[i] = value[i - limbs] << (bits % 64);
    if (bits % 64 != 0 && i > limbs) out[i] |= value[i - limbs - 1] >> (64 - bits % 64);
  }
  return out;
}

struct Binary {  // mantissa * 2^exponent
  std::uint64_t mantissa = 0;
  int exponent = 0;
};

Binary binary(double value) {
  RIDGE_CHECK(std::isfinite(value) && value > 0, "a rate of " + std::to_string(value));
  int exponent = 0;
  const double fraction = std::frexp(value, &exponent);
  return {static_cast<std::uint64_t>(std::ldexp(fraction, 53)), exponent - 53};
}

unsigned __int128 at(Line line, std::int64_t x) {
  RIDGE_CHECK(line.slope >= 0 && line.constant >= 0 && x >= 1, "a count is never negative");
  return static_cast<unsigned __int128>(line.slope) * static_cast<std::uint64_t>(x) +
         static_cast<std::uint64_t>(line.constant);
}

// What every term shares: symbols with their lowest powers, and the greatest number that divides all coefficients.
struct Factor {
  Monomial monomial;
  std::int64_t numerators = 0, denominators = 1;
};

void share(Factor& factor, const Monomial& monomial, Rational coefficient) {
  const bool first = factor.numerators == 0;
  factor.numerators = std::gcd(factor.numerators, coefficient.num());
  factor.denominators = std::lcm(factor.denominators, coefficient.den());
  Monomial shared;
  for (const auto& [symbol, power] : first ? monomial : factor.monomial)
    for (const auto& [other, other_power] : monomial)
      if (symbol == other) shared.emplace_back(symbol, std::min(power, other_power));
  factor.monomial = shared;
}

Polynomial divided(const Polynomial& sum, const Factor& factor) {
  const Rational scale(factor.denominators, std::max<std::int64_t>(factor.numerators, 1));
  if (factor.monomial.empty()) return sum * scale;
  Polynomial out;
  for (const auto& [monomial, coefficient] : sum.terms()) {
    std::vector<std::string> symbols;
    for (const auto& [symbol, power] : monomial) {
      int left = power;
      for (const auto& [shared, shared_power] : factor.monomial)
        if (shared == symbol) left -= shared_power;
      symbols.insert(symbols.end(), static_cast<std::size_t>(left), symbol);
    }
    out += Polynomial::product(coefficient * scale, std::move(symbols));
  }
  return out;
}

}  // namespace

Ratio reduced(const Polynomial& flops, const Polynomial& bytes) {
  RIDGE_CHECK(flops.exact() && bytes.exact(), flops.text() + " over " + bytes.text());
  Factor factor;
  for (const Polynomial* sum : {&flops, &bytes})
    for (const auto& [monomial, coefficient] : sum->terms()) share(factor, monomial, coefficient);
  return {divided(flops, factor), divided(bytes, factor)};
}

bool compute_bound(Count flops, Count bytes, Roofs roofs) {
  const Binary peak = binary(roofs.peak), bandwidth = binary(roofs.bandwidth);
  const int lowest = std::min(peak.exponent, bandwidth.exponent);
  const auto shift = [&](int exponent) { return std::min(exponent - lowest, 256); };
  const auto count = [](Count value) { return static_cast<unsigned __int128>(value); };
  const Wide math = shifted(wide(count(flops), bandwidth.mantissa), shift(bandwidth.exponent));
  const Wide memory = shifted(wide(count(bytes), peak.mantissa), shift(peak.exponent));
  return !std::lexicographical_compare(math.rbegin(), math.rend(), memory.rbegin(), memory.rend());
}

bool compute_bound(Line flops, Line bytes, std::int64_t x, Roofs roofs) {
  return compute_bound(static_cast<Count>(at(flops, x)), static_cast<Count>(at(bytes, x)), roofs);
}

Result<bool> compute_bound(const Ratio& ratio, const Bindings& dims, Roofs roofs) {
  const auto flops = ratio.flops.count(dims), bytes = ratio.bytes.count(dims);
  if (!flops) return flops.error();
  if (!bytes) return bytes.error();
  return compute_bound(*flops, *bytes, roofs);
}

}  // namespace ridge
