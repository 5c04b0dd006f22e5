#include "ridge/base/timeline.h"

#include <gtest/gtest.h>

namespace ridge {
namespace {

TEST(Timeline, LanesHoldEventsAndEmptyOnesAreNotRecorded) {
  Timeline timeline;
  EXPECT_EQ(timeline.end_tick(), 0);
  const std::int32_t array = timeline.add_lane("array"), memory = timeline.add_lane("memory");
  timeline.add_event(array, Phase::fill, 0, 4);
  timeline.add_event(array, Phase::compute, 4, 11, 1);
  timeline.add_event(array, Phase::stall, 11, 11);
  timeline.add_event(memory, Phase::load, 2, 20);
  timeline.add_event(memory, Phase::load, 10, 15);
  EXPECT_EQ(timeline.lanes, (std::vector<std::string>{"array", "memory"}));
  EXPECT_EQ(timeline.events.size(), 4U);
  EXPECT_EQ(timeline.events[1], (Event{array, Phase::compute, 4, 11, 1}));
  EXPECT_EQ(timeline.end_tick(), 20);
  EXPECT_EQ(timeline.count_ticks(array, Phase::compute), 7);
  EXPECT_EQ(timeline.count_ticks(memory, Phase::load), 23);
  EXPECT_EQ(phase_name(Phase::sync), "sync");
}

}  // namespace
}  // namespace ridge
