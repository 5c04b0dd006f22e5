#include <gtest/gtest.h>

#include <algorithm>

#include "ridge/bench/bench.h"

namespace ridge {
namespace {

TEST(CpuStreams, TimesAndChecksEveryKernelOnEveryThread) {
  for (const int threads : {1, 3}) {
    const auto result = compare_cpu_streams({.threads = threads, .rounds = 1, .array_bytes = 4 << 20});
    ASSERT_TRUE(result) << result.error().message;
    ASSERT_EQ(result->rows.size(), 39u);
    for (const ComparisonRow& row : result->rows) {
      std::vector<double> seconds;
      for (const Competitor& competitor : row.competitors) {
        EXPECT_EQ(competitor.samples.size(), 1u) << competitor.name;
        seconds.push_back(competitor.samples[0]);
        EXPECT_GT(seconds.back(), 0) << competitor.name;
      }
      ASSERT_EQ(seconds.size(), 6u);
      EXPECT_DOUBLE_EQ(row.ratio.median, seconds[1] / seconds[0]);
      EXPECT_DOUBLE_EQ(row.numbers["of_roof"], std::max(seconds[1], seconds[2]) / seconds[0]);
      EXPECT_DOUBLE_EQ(row.numbers["in_cache"], std::max(seconds[4], seconds[5]) / std::min(seconds[2], seconds[3]));
      EXPECT_LE(row.numbers["max_error"], row.numbers["allowed_error"]);
    }
    EXPECT_EQ(result->rows[0].numbers["bytes"], threads == 1 ? 2.0 * (4 << 20) : 2.0 * 4 * 1024 * 341 * 3);
  }
}

TEST(CpuStreams, SelectsKernelsByName) {
  const auto some = compare_cpu_streams({.rounds = 1, .only_kernel = "softmax", .array_bytes = 4 << 20});
  ASSERT_TRUE(some);
  ASSERT_EQ(some->rows.size(), 12u);
  for (const ComparisonRow& row : some->rows) EXPECT_EQ(row.labels["kernel"], "softmax");
  EXPECT_EQ(compare_cpu_streams({.only_kernel = "sofmax"}).error().to_string(),
            "no kernel is called 'sofmax'\n  hint: rmsnorm, softmax, affine, gelu, cosines, compiled_affine or "
            "compiled_gelu\n");
  EXPECT_EQ(compare_device_streams({.only_kernel = "sofmax"}).error().to_string(),
            "no kernel is called 'sofmax'\n  hint: affine, gelu, silu_gate, cos_1, cos_4, cos_16, cos_64, softmax or "
            "rmsnorm\n");
}

}  // namespace
}  // namespace ridge
