#include "ridge/base/timer.h"

#include <gtest/gtest.h>

#include <thread>

namespace ridge {
namespace {

TEST(Statistics, ReturnsMedianMinimumAndMaximum) {
  EXPECT_EQ(compute_statistics({30, 10, 11}), (Statistics{11, 10, 30, 3}));
  EXPECT_EQ(compute_statistics({4, 1, 3, 2}), (Statistics{2.5, 1, 4, 4}));
  EXPECT_EQ(compute_statistics({7}), (Statistics{7, 7, 7, 1}));
  EXPECT_EQ(compute_statistics({}), (Statistics{0, 0, 0, 0}));
}

TEST(Timer, IsMonotonic) {
  for (const TimerClock clock : {TimerClock::wall, TimerClock::thread}) {
    const Timer timer(clock);
    const double first = timer.seconds();
    EXPECT_GE(first, 0);
    EXPECT_GE(timer.seconds(), first);
  }
}

TEST(Timer, DoesNotCountSleepInCpuTime) {
  const Timer wall, thread(TimerClock::thread);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_GE(wall.seconds(), 0.02);
  EXPECT_LT(thread.seconds(), 0.01);
}

TEST(Statistics, CountsOutliers) {
  EXPECT_EQ(compute_statistics({1.00, 1.01, 0.99, 1.02, 0.98, 1.01, 30}).outliers, 1);
  EXPECT_EQ(compute_statistics({1.00, 1.01, 0.99, 1.02, 0.98, 1.01, 1.05}).outliers, 0);
  EXPECT_EQ(compute_statistics({1, 1, 1, 1, 1, 1.005}).outliers, 0) << "a difference below 1 % is never an outlier";
  EXPECT_EQ(compute_statistics({1, 1, 1, 30}).outliers, 0) << "too few samples";
}

}  // namespace
}  // namespace ridge
