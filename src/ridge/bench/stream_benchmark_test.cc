#include "ridge/bench/stream_benchmark.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace ridge {
namespace {

TEST(StreamBenchmark, TimesAndChecksEveryCaseOnEveryThread) {
  for (const int threads : {1, 3}) {
    const auto benchmark = run_stream_benchmark({.threads = threads, .rounds = 1, .array_bytes = 4 << 20});
    ASSERT_TRUE(benchmark) << benchmark.error().message;
    ASSERT_EQ(benchmark->rows.size(), stream_cases().size());
    for (const StreamRow& row : benchmark->rows) {
      EXPECT_GT(row.ridge_time.median, 0);
      EXPECT_GT(row.l2_s, 0);
      EXPECT_GT(row.l1_s, 0);
      EXPECT_GT(row.arithmetic_s, 0);
      EXPECT_GT(row.load_store_s, 0);
      EXPECT_DOUBLE_EQ(row.in_cache_ratio,  // values of the single round
                       std::max(row.arithmetic_s, row.load_store_s) / std::min(row.l2_s, row.l1_s));
      EXPECT_DOUBLE_EQ(row.ratio, row.stream_time.median / row.ridge_time.median);
      EXPECT_LE(row.error, row.allowed_error);
    }
    EXPECT_EQ(benchmark->rows.front().bytes, threads == 1 ? 2.0 * (4 << 20) : 2.0 * 4 * 1024 * 341 * 3);
  }
}

TEST(StreamBenchmark, SelectsKernelsByName) {
  const auto some = run_stream_benchmark({.rounds = 1, .array_bytes = 4 << 20, .only_kernel = "softmax"});
  ASSERT_TRUE(some);
  for (const StreamRow& row : some->rows) EXPECT_EQ(row.stream_case.kernel, StreamKernel::softmax);
  const auto none = run_stream_benchmark({.only_kernel = "sofmax"});
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().message, "no kernel is called 'sofmax'");
}

}  // namespace
}  // namespace ridge
