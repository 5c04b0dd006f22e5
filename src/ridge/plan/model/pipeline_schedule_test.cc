// Tests schedules of stages against times by hand.
#include "ridge/plan/model/pipeline_schedule.h"

#include <gtest/gtest.h>

namespace ridge {
namespace {

PipelineStage make_stage(double forward_s, double backward_s, double send_s = 0) {
  return {forward_s, backward_s, forward_s, backward_s, send_s};
}

TEST(PipelineSchedule, HasThePublishedBubbleOfEqualStages) {
  EXPECT_EQ(schedule_pipeline(std::vector(2, make_stage(1, 1)), 4), (std::vector<double>{10, 9}));
  for (const std::int64_t stages : {1, 2, 4, 7})
    for (const std::int64_t micro_batches : {1, 3, 7, 32}) {
      const std::vector<PipelineStage> equal(static_cast<std::size_t>(stages), make_stage(1, 2));
      EXPECT_DOUBLE_EQ(schedule_pipeline(equal, micro_batches).front(),
                       static_cast<double>((micro_batches + stages - 1) * 3))
          << stages << " " << micro_batches;
    }
}

TEST(PipelineSchedule, WaitsForTheSlowestStage) {
  // The first stage always has a pass to run: 2 forward passes take as long as the second stage needs for one.
  EXPECT_EQ(schedule_pipeline(std::vector{make_stage(2, 2), make_stage(1, 1)}, 4), (std::vector<double>{16, 14}));
  // The last stage works from 1 on, and the first ends a backward pass later.
  EXPECT_EQ(schedule_pipeline(std::vector{make_stage(1, 1), make_stage(2, 2)}, 4), (std::vector<double>{18, 17}));
}

TEST(PipelineSchedule, SendsOneMicroBatchAtATime) {
  EXPECT_EQ(schedule_pipeline(std::vector{make_stage(1, 2, 0.5), make_stage(3, 4)}, 1),
            (std::vector<double>{1 + 0.5 + 3 + 4 + 0.5 + 2, 1 + 0.5 + 3 + 4}));
  // Inputs arrive at 6, 11 and 16, gradients 5 after 8, 13 and 18.
  EXPECT_EQ(schedule_pipeline(std::vector{make_stage(1, 1, 5), make_stage(1, 1)}, 2), (std::vector<double>{19, 13}));
}

TEST(PipelineSchedule, HasTimesOfTheFirstAndTheLastPass) {
  const PipelineStage stage{.forward_s = 1, .backward_s = 2, .first_forward_s = 10, .last_backward_s = 20};
  EXPECT_EQ(schedule_pipeline(std::vector{stage}, 3).front(), 10 + 2 + 1 + 2 + 1 + 20);
  EXPECT_EQ(stage.busy_s(3), 36);
}

TEST(PipelineSchedule, KeepsAsManyMicroBatchesAsStagesFollow) {
  EXPECT_EQ(count_kept_micro_batches(0, 4, 8), 4);
  EXPECT_EQ(count_kept_micro_batches(3, 4, 8), 1);
  EXPECT_EQ(count_kept_micro_batches(0, 4, 2), 2);
}

}  // namespace
}  // namespace ridge
