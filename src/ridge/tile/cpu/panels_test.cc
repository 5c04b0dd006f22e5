#include "ridge/tile/cpu/panels.h"

#include <gtest/gtest.h>

#include <cmath>

namespace ridge::tile {
namespace {

TEST(Panels, PowersOfTwoHaveARelativeErrorOfAtMostTwoToTheMinus22) {
  double largest = 0;
  for (int i = -126 << 14; i <= 126 << 14; i += 37) {
    const float x = static_cast<float>(i) / (1 << 14);
    largest = std::max(largest, std::fabs(exp2_of(x) / std::exp2(static_cast<double>(x)) - 1));
  }
  EXPECT_LT(largest, 0x1p-22);
  EXPECT_GT(largest, 0);
}

TEST(Panels, WholePowersOfTwoAreExactAndSmallOnesAreZero) {
  EXPECT_EQ(exp2_of(0.0f), 1);
  EXPECT_EQ(exp2_of(-126.0f), 0x1p-126f);
  EXPECT_EQ(exp2_of(-126.5f), 0);
  EXPECT_EQ(exp2_of(-INFINITY), 0);
  EXPECT_EQ(exp2_of(12.0f), 4096);
}

}  // namespace
}  // namespace ridge::tile
