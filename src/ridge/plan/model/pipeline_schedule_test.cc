// Tests schedules of stages against times by hand.
#include "ridge/plan/model/pipeline_schedule.h"

#include <gtest/gtest.h>

namespace ridge {
namespace {

PipelineStage make_stage(double forward_s, double backward_s, double send_s = 0) {
  return {.forward_s = forward_s, .backward_s = backward_s, .send_s = send_s};
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

TEST(PipelineSchedule, OverlapsExchangesOfDataRanks) {
  PipelineStage stage{.forward_s = 1, .backward_s = 3, .gather_s = 10, .reduce_s = 20, .reduce_after_s = 1};
  // Weights until 10, then passes until 13, 17 and 21; the last backward pass begins at 18, its sums at 19.
  EXPECT_EQ(schedule_pipeline(std::vector{stage}, 3).front(), 39);
  EXPECT_EQ(stage.busy_s(3), 12);
  stage.reduces_each = true;  // From 11, 31 and 51 on
  EXPECT_EQ(schedule_pipeline(std::vector{stage}, 3).front(), 71);
}

TEST(PipelineSchedule, SendsGradientsBeforeTheyAreSummed) {
  for (const std::int64_t stages : {2, 4, 8})
    for (const std::int64_t micro_batches : {1, 4, 32}) {
      const PipelineStage stage{.forward_s = 1, .backward_s = 2, .reduce_s = 100};
      const std::vector<PipelineStage> equal(static_cast<std::size_t>(stages), stage);
      // Only the sums of the first stage are added, which begin with its last backward pass.
      EXPECT_DOUBLE_EQ(schedule_pipeline(equal, micro_batches).front(),
                       static_cast<double>((micro_batches + stages - 1) * 3 - 2 + 100))
          << stages << " " << micro_batches;
    }
}

TEST(PipelineSchedule, KeepsAsManyMicroBatchesAsStagesFollow) {
  EXPECT_EQ(count_kept_micro_batches(0, 4, 8), 4);
  EXPECT_EQ(count_kept_micro_batches(3, 4, 8), 1);
  EXPECT_EQ(count_kept_micro_batches(0, 4, 2), 2);
}

}  // namespace
}  // namespace ridge
