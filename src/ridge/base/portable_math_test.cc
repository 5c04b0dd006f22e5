#include "ridge/base/portable_math.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>

namespace ridge::base {
namespace {

double error_in_ulps(double got, double expected) {
  return std::abs(got - expected) / (std::nextafter(std::abs(expected), INFINITY) - std::abs(expected));
}

TEST(PortableMath, IsWithinTwoUlpOfTheCLibrary) {
  std::mt19937_64 random(1);  // NOLINT: the same numbers every time
  std::uniform_real_distribution<double> exponent(-690, 690);
  for (int i = 0; i < 100000; ++i) {
    const double x = exponent(random), y = std::exp(exponent(random));
    ASSERT_LE(error_in_ulps(exp(x), std::exp(x)), 2) << x;
    ASSERT_LE(error_in_ulps(log(y), std::log(y)), 2) << y;
  }
  EXPECT_EQ(log(1), 0);
  EXPECT_EQ(exp(0), 1);
  EXPECT_EQ(log2(8), 3);
}

TEST(PortableMath, RaisesToAPower) {
  EXPECT_NEAR(pow(2, 10), 1024, 1e-10);
  EXPECT_NEAR(pow(10, -3), 1e-3, 1e-17);
  EXPECT_EQ(pow(7, 0), 1);
}

// Compares bits: fused multiply-adds, or a call of the C library instead, would change them.
TEST(PortableMath, GivesTheSameBitsEverywhere) {
  const auto bits = [](double x) {
    std::uint64_t out = 0;
    std::memcpy(&out, &x, sizeof out);
    return out;
  };
  std::uint64_t sum = 0;
  for (int i = 1; i <= 1000; ++i) sum = sum * 31 + bits(log(i * 0.37)) + bits(exp(i * 0.013 - 7)) + bits(pow(i, 0.7));
  EXPECT_EQ(sum, 4129411975648011316U);
}

}  // namespace
}  // namespace ridge::base
