#include "ridge/measure/passes.h"

#include <gtest/gtest.h>

namespace ridge {
namespace {

int passes_of(Passes passes, double seconds) {
  int count = 0;
  for (; passes.more() && count < 2'000'000; ++count) passes.add(seconds);
  return count;
}

TEST(Passes, AreFiveAtLeastAndAsManyAsTheTimeHolds) {
  EXPECT_EQ(passes_of(Passes({}), 1), 5);
  EXPECT_EQ(passes_of(Passes({}), 0.03125), 7);
  EXPECT_EQ(passes_of(Passes({}), 1e-9), 1000);
  EXPECT_EQ(passes_of(Passes({.passes = 3}), 1), 3);
  EXPECT_EQ(passes_of(Passes({.seconds = 4}), 0.5), 8);
  EXPECT_EQ(passes_of(Passes({.seconds = 4}), 1e-9), 1'000'000);
}

// The requested time is divided among a device's kernels and the whole program.
TEST(Passes, OfADeviceAreTheUsersToo) {
  EXPECT_EQ(passes_of(Passes::on_device({}, 4), 0.002), 10);
  EXPECT_EQ(passes_of(Passes::on_device({.passes = 7}, 4), 1), 7);
  EXPECT_EQ(passes_of(Passes::on_device({.seconds = 2}, 4), 0.0625), 8);
  EXPECT_EQ(passes_of(Passes::exactly(6), 100), 6);
}

}  // namespace
}  // namespace ridge
