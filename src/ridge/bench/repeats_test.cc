#include <gtest/gtest.h>

#include "ridge/bench/bench.h"

namespace ridge {
namespace {

TEST(Repeats, TimesOneKernelAndOnePerRepeat) {
  const auto result = compare_repeats({.threads = 2, .rounds = 2, .elements = 50'000, .max_repeats = 5});
  ASSERT_TRUE(result.ok()) << result.error().to_string();
  ASSERT_EQ(result->rows.size(), 3u);               // 1, 2, 4
  EXPECT_EQ(result->settings["elements"], 49'152);  // a multiple of the block size per thread
  EXPECT_EQ(result->threads, 2);
  const double n = 49'152, one_predicted_s = result->rows[0].competitors[0].predicted_s->expected;
  for (const ComparisonRow& row : result->rows) {
    const double repeats = row.labels["repeats"];
    const Competitor &fused = row.competitors[0], &unfused = row.competitors[1];
    EXPECT_EQ(fused.bytes, 8 * n);
    EXPECT_EQ(unfused.bytes, 8 * n * repeats);
    for (const Competitor* competitor : {&fused, &unfused}) {
      EXPECT_EQ(competitor->flops, n * repeats);
      EXPECT_EQ(competitor->samples.size(), 2u);
      EXPECT_GT(competitor->time().min, 0);
      EXPECT_LE(*competitor->max_error, result->settings["allowed_error"].get<double>());
      EXPECT_GT(*competitor->max_error, 0);  // above 0 because no f32 equals the cosine
    }
    EXPECT_DOUBLE_EQ(unfused.predicted_s->expected, repeats * one_predicted_s);
  }
  EXPECT_LT(result->rows[2].competitors[0].predicted_s->expected, result->rows[2].competitors[1].predicted_s->expected);
}

TEST(Repeats, RejectsAVectorThatIsTooShort) {
  EXPECT_EQ(compare_repeats({.threads = 2, .elements = 8191}).error().to_string(),
            "expected at least 8192 elements, found 8191\n  hint: a vector that fits into the caches does not "
            "measure the memory\n");
  EXPECT_FALSE(compare_repeats({.threads = 1, .rounds = 1, .elements = 8191, .max_repeats = 1}))
      << "samples from the middle would exceed the vector";
  EXPECT_TRUE(compare_repeats({.threads = 1, .rounds = 1, .elements = 8192, .max_repeats = 1}));
}

TEST(Repeats, DrawsThreePanelsOfFourCurves) {
  Comparison repeats{.benchmark = "repeats", .device = "NVIDIA H200"};
  repeats.settings = {{"elements", 1'000'000}, {"kernels", "sm_90a"}};
  for (const double r : {1, 4}) {
    ComparisonRow row;
    row.labels["repeats"] = r;
    row.competitors = {{.name = "one kernel",
                        .samples = {2e-6},
                        .flops = 1e6 * r,
                        .bytes = 8e6,
                        .predicted_s = Interval{1, 2.5e-6, 4}},
                       {.name = "per repeat",
                        .samples = {2e-6 * r},
                        .flops = 1e6 * r,
                        .bytes = 8e6 * r,
                        .predicted_s = Interval{1, 2e-6 * r, 4}}};
    repeats.rows.push_back(row);
  }
  const std::string svg = repeats_svg(repeats);
  const auto count = [&](std::string_view what) {
    int n = 0;
    for (std::size_t at = svg.find(what); at != std::string::npos; at = svg.find(what, at + 1)) ++n;
    return n;
  };
  EXPECT_EQ(count("<polyline"), 3 * 4 + 4);  // the legend has one of each
  EXPECT_EQ(count("stroke-dasharray"), 3 * 2 + 2);
  EXPECT_EQ(count("<circle"), 3 * 2 * 2 + 2);
  EXPECT_EQ(count("class=\"frame\""), 3);
  for (const char* words : {"time (s)", "achieved FLOP/s", "achieved bytes/s", "one kernel, predicted", "H200"})
    EXPECT_EQ(count(words) > 0, true) << words;
  EXPECT_EQ(count("nan"), 0);
  EXPECT_EQ(count("inf"), 0);
}

}  // namespace
}  // namespace ridge
