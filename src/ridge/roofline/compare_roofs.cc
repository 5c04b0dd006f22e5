#include "ridge/roofline/compare_roofs.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "ridge/base/check.h"

namespace ridge {
namespace {

// Unsigned 512-bit number, lowest limb first. It holds a count (127 bits) times a mantissa (53 bits) times a power of
// two. The power is capped at 2^256, because a larger one decides the comparison alone.
using UInt512 = std::array<std::uint64_t, 8>;

UInt512 multiply_wide(unsigned __int128 count, std::uint64_t mantissa) {
  UInt512 out{static_cast<std::uint64_t>(count), static_cast<std::uint64_t>(count >> 64)};
  unsigned __int128 carry = 0;
  for (std::uint64_t& limb : out) {
    carry += static_cast<unsigned __int128>(limb) * mantissa;
    limb = static_cast<std::uint64_t>(carry);
    carry >>= 64;
  }
  return out;
}

UInt512 shift_left(const UInt512& value, int bits) {
  UInt512 out{};
  const std::size_t limbs = bits / 64;
  for (std::size_t i = limbs; i < out.size(); ++i) {
    out[i] = value[i - limbs] << (bits % 64);
    if (bits % 64 != 0 && i > limbs) out[i] |= value[i - limbs - 1] >> (64 - bits % 64);
  }
  return out;
}

struct BinaryFloat {  // Equals mantissa * 2^exponent
  std::uint64_t mantissa = 0;
  int exponent = 0;
};

BinaryFloat to_binary_float(double value) {
  RIDGE_CHECK(std::isfinite(value) && value > 0, "a rate of " + std::to_string(value));
  int exponent = 0;
  const double fraction = std::frexp(value, &exponent);
  return {static_cast<std::uint64_t>(std::ldexp(fraction, 53)), exponent - 53};
}

unsigned __int128 evaluate_linear(LinearCount count, std::int64_t x) {
  RIDGE_CHECK(count.slope >= 0 && count.constant >= 0 && x >= 1, "a count is never negative");
  return static_cast<unsigned __int128>(count.slope) * static_cast<std::uint64_t>(x) +
         static_cast<std::uint64_t>(count.constant);
}

// Common factor of all terms: symbols with their lowest powers, and the greatest common divisor of the coefficients.
struct CommonFactor {
  Monomial monomial;
  std::int64_t numerator_gcd = 0, denominator_lcm = 1;
};

void merge_factor(CommonFactor& factor, const Monomial& monomial, Rational coefficient) {
  const bool first = factor.numerator_gcd == 0;
  factor.numerator_gcd = std::gcd(factor.numerator_gcd, coefficient.numerator());
  factor.denominator_lcm = std::lcm(factor.denominator_lcm, coefficient.denominator());
  Monomial shared;
  for (const auto& [symbol, power] : first ? monomial : factor.monomial)
    for (const auto& [other, other_power] : monomial)
      if (symbol == other) shared.emplace_back(symbol, std::min(power, other_power));
  factor.monomial = shared;
}

Polynomial divide_by_factor(const Polynomial& sum, const CommonFactor& factor) {
  const Rational scale(factor.denominator_lcm, std::max<std::int64_t>(factor.numerator_gcd, 1));
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
    out += Polynomial::make_term(coefficient * scale, std::move(symbols));
  }
  return out;
}

}  // namespace

Ratio cancel_common_factor(const Polynomial& flops, const Polynomial& bytes) {
  RIDGE_CHECK(flops.is_exact() && bytes.is_exact(), flops.to_string() + " over " + bytes.to_string());
  CommonFactor factor;
  for (const Polynomial* sum : {&flops, &bytes})
    for (const auto& [monomial, coefficient] : sum->terms()) merge_factor(factor, monomial, coefficient);
  return {divide_by_factor(flops, factor), divide_by_factor(bytes, factor)};
}

bool is_compute_bound(Count flops, Count bytes, RoofRates rates) {
  const BinaryFloat peak = to_binary_float(rates.peak), bandwidth = to_binary_float(rates.bandwidth);
  const int lowest = std::min(peak.exponent, bandwidth.exponent);
  const auto shift = [&](int exponent) { return std::min(exponent - lowest, 256); };
  const auto count = [](Count value) { return static_cast<unsigned __int128>(value); };
  const UInt512 math = shift_left(multiply_wide(count(flops), bandwidth.mantissa), shift(bandwidth.exponent));
  const UInt512 memory = shift_left(multiply_wide(count(bytes), peak.mantissa), shift(peak.exponent));
  return !std::lexicographical_compare(math.rbegin(), math.rend(), memory.rbegin(), memory.rend());
}

bool is_compute_bound(LinearCount flops, LinearCount bytes, std::int64_t x, RoofRates rates) {
  return is_compute_bound(static_cast<Count>(evaluate_linear(flops, x)), static_cast<Count>(evaluate_linear(bytes, x)),
                          rates);
}

Result<bool> is_compute_bound(const Ratio& ratio, const Bindings& dims, RoofRates rates) {
  RIDGE_TRY(flops, ratio.flops.evaluate_count(dims));
  RIDGE_TRY(bytes, ratio.bytes.evaluate_count(dims));
  return is_compute_bound(flops, bytes, rates);
}

}  // namespace ridge
