#include "ridge/measure/contest/stream_contest.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace ridge {
namespace {

TEST(StreamContest, TimesAndChecksEveryCaseOnEveryThread) {
  for (const int threads : {1, 3}) {
    const auto contest = stream_contest({.threads = threads, .rounds = 1, .array_bytes = 4 << 20});
    ASSERT_TRUE(contest) << contest.error().message;
    ASSERT_EQ(contest->rows.size(), stream_cases().size());
    for (const StreamRow& row : contest->rows) {
      EXPECT_GT(row.ours.median, 0);
      EXPECT_GT(row.cached_s, 0);
      EXPECT_GT(row.l1_s, 0);
      EXPECT_GT(row.arithmetic_s, 0);
      EXPECT_GT(row.moves_s, 0);
      EXPECT_DOUBLE_EQ(row.in_cache,  // values of the single round
                       std::max(row.arithmetic_s, row.moves_s) / std::min(row.cached_s, row.l1_s));
      EXPECT_DOUBLE_EQ(row.ratio, row.stream.median / row.ours.median);
      EXPECT_LE(row.error, row.allowed);
    }
    EXPECT_EQ(contest->rows.front().bytes, threads == 1 ? 2.0 * (4 << 20) : 2.0 * 4 * 1024 * 341 * 3);
  }
}

TEST(StreamContest, KnowsItsKernelsByName) {
  const auto some = stream_contest({.rounds = 1, .array_bytes = 4 << 20, .only = "softmax"});
  ASSERT_TRUE(some);
  for (const StreamRow& row : some->rows) EXPECT_EQ(row.what.kernel, StreamKernel::softmax);
  const auto none = stream_contest({.only = "sofmax"});
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().message, "no kernel is called 'sofmax'");
}

}  // namespace
}  // namespace ridge
