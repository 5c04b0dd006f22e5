#include "ridge/bench/repeats.h"

#include <gtest/gtest.h>

namespace ridge {
namespace {

TEST(RepeatsBenchmark, TimesFusedAndUnfusedRepeats) {
  const auto figure = run_repeats_benchmark({.threads = 2, .elements = 50'000, .max_repeats = 5, .rounds = 2});
  ASSERT_TRUE(figure.ok()) << figure.error().to_string();
  ASSERT_EQ(figure->points.size(), 3u);  // 1, 2, 4
  EXPECT_EQ(figure->elements, 49'152);   // a multiple of the block size per thread
  EXPECT_EQ(figure->threads, 2);
  const double n = 49'152;
  for (const RepeatsPoint& p : figure->points) {
    EXPECT_EQ(p.flops, n * p.repeats);
    EXPECT_EQ(p.fused.bytes, 8 * n);
    EXPECT_EQ(p.unfused.bytes, 8 * n * p.repeats);
    for (const RepeatsTiming* way : {&p.fused, &p.unfused}) {
      EXPECT_EQ(way->time.runs, 2);
      EXPECT_GT(way->time.min, 0);
      EXPECT_LE(way->error, figure->allowed_error);
      EXPECT_GT(way->error, 0);  // above 0 because no f32 equals the cosine
    }
    EXPECT_DOUBLE_EQ(p.unfused.predicted.expected, p.repeats * figure->points[0].fused.predicted.expected);
  }
  EXPECT_LT(figure->points[2].fused.predicted.expected, figure->points[2].unfused.predicted.expected);
}

TEST(RepeatsBenchmark, RejectsAVectorThatIsTooShort) {
  EXPECT_EQ(run_repeats_benchmark({.threads = 2, .elements = 8191}).error().to_string(),
            "expected at least 8192 elements, found 8191\n  hint: a vector that fits into the caches does not "
            "measure the memory\n");
  EXPECT_FALSE(run_repeats_benchmark({.threads = 1, .elements = 8191, .max_repeats = 1, .rounds = 1}))
      << "samples from the middle would exceed the vector";
  EXPECT_TRUE(run_repeats_benchmark({.threads = 1, .elements = 8192, .max_repeats = 1, .rounds = 1}));
}

}  // namespace
}  // namespace ridge
