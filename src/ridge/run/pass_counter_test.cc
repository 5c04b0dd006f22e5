#include "ridge/run/pass_counter.h"

#include <gtest/gtest.h>

namespace ridge {
namespace {

int count_passes(PassCounter passes, double seconds) {
  int count = 0;
  for (; passes.needs_more() && count < 2'000'000; ++count) passes.add_pass(seconds);
  return count;
}

TEST(PassCounter, RunsAtLeastFivePassesAndTheMinimumTime) {
  EXPECT_EQ(count_passes(PassCounter({}), 1), 5);
  EXPECT_EQ(count_passes(PassCounter({}), 0.03125), 7);
  EXPECT_EQ(count_passes(PassCounter({}), 1e-9), 1000);
  EXPECT_EQ(count_passes(PassCounter({.passes = 3}), 1), 3);
  EXPECT_EQ(count_passes(PassCounter({.seconds = 4}), 0.5), 8);
  EXPECT_EQ(count_passes(PassCounter({.seconds = 4}), 1e-9), 1'000'000);
}

// The requested time is divided among a device's kernels and the whole program.
TEST(PassCounter, AppliesTheUsersOptionsOnADevice) {
  EXPECT_EQ(count_passes(PassCounter::for_device({}, 4), 0.002), 10);
  EXPECT_EQ(count_passes(PassCounter::for_device({.passes = 7}, 4), 1), 7);
  EXPECT_EQ(count_passes(PassCounter::for_device({.seconds = 2}, 4), 0.0625), 8);
  EXPECT_EQ(count_passes(PassCounter::exact_count(6), 100), 6);
}

}  // namespace
}  // namespace ridge
