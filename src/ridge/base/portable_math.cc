#include "ridge/base/portable_math.h"

#include <array>
#include <cmath>

namespace ridge::base {
namespace {

constexpr double ln2_high = 6.93147180369123816490e-01, ln2_low = 1.90821492927058770002e-10;
constexpr double ln2 = 0.693147180559945309417;

constexpr int taylor_terms = 14;
constexpr std::array<double, taylor_terms + 1> inverse_factorials = [] {
  std::array<double, taylor_terms + 1> out{1};
  double factorial = 1;
  for (std::size_t i = 1; i < out.size(); ++i) out[i] = 1 / (factorial *= static_cast<double>(i));
  return out;
}();

}  // namespace

// log(2^e m) = e ln 2 + 2 atanh((m - 1) / (m + 1)), m within a factor of sqrt(2) of 1.
double log(double x) {
  int exponent = 0;
  double m = std::frexp(x, &exponent);
  if (m < 0.70710678118654752) {
    m *= 2;
    --exponent;
  }
  const double s = (m - 1) / (m + 1), square = s * s;
  double series = 0;
  for (int k = 23; k > 1; k -= 2) series = (series + 1.0 / k) * square;
  return exponent * ln2_high + (2 * s + (2 * s * series + exponent * ln2_low));
}

// exp(x) = 2^k exp(r), |r| at most half of ln 2, by its Taylor series.
double exp(double x) {
  const double k = std::floor(x / ln2 + 0.5);
  const double r = (x - k * ln2_high) - k * ln2_low;
  double series = 0;
  for (std::size_t i = inverse_factorials.size(); i-- > 0;) series = series * r + inverse_factorials[i];
  return std::ldexp(series, static_cast<int>(k));
}

double log2(double x) { return log(x) / ln2; }
double pow(double x, double y) { return exp(y * log(x)); }

}  // namespace ridge::base
