#include "ridge/measure/work_log.h"

#include <gtest/gtest.h>

namespace ridge {
namespace {

TEST(WorkLog, InterpolatesBetweenEntries) {
  WorkLog log(1);
  log.add(2, 10);
  log.add(4, 10);
  EXPECT_EQ(log.work_until(0), 0);
  EXPECT_EQ(log.work_until(1.5), 5);
  EXPECT_EQ(log.work_until(3), 15);
  EXPECT_EQ(log.work_until(9), 20);
  EXPECT_EQ(log.total(), 20);
}

TEST(WorkLog, TheLargestRateIsThatOfAWindowWithoutInterruption) {
  // Both threads do 10 units a second, but the first pauses until 4 and the second from 6 on.
  WorkLog first(0), second(0);
  first.add(1, 10);
  first.add(4, 1);
  for (int end = 5; end <= 10; ++end) first.add(end, 10);
  for (int end = 1; end <= 6; ++end) second.add(end, 10);
  const WorkLog both[] = {first, second};
  EXPECT_DOUBLE_EQ(find_largest_rate(both, 2), 20);
  EXPECT_DOUBLE_EQ(find_largest_rate(both, 4), 15) << "longer than the time in which both run";
}

TEST(WorkLog, ThreadsThatNeverRunTogetherDoNotAddUp) {
  WorkLog first(0), second(5);
  for (int end = 1; end <= 4; ++end) first.add(end, 10);
  for (int end = 6; end <= 9; ++end) second.add(end, 10);
  const WorkLog both[] = {first, second};
  EXPECT_DOUBLE_EQ(find_largest_rate(both, 2), 10);
}

}  // namespace
}  // namespace ridge
