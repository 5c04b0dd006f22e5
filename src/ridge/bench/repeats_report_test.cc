// Text, JSON and figure of the repeats benchmark from made-up times.
#include "ridge/bench/repeats_report.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace ridge {
namespace {

RepeatsBenchmark make_benchmark() {
  RepeatsBenchmark out{.machine = *find_machine("h200"), .day = "2026-01-02", .kernel_isa = "sm_90a"};
  out.driver = 13000;
  out.rounds = 3;
  out.elements = 1'000'000;
  out.allowed_error = 4e-6;
  for (const int repeats : {1, 4}) {
    RepeatsPoint p{.repeats = repeats, .flops = 1e6 * repeats};
    p.fused = {.time = {2e-6, 1e-6, 3e-6, 3}, .predicted = {1e-6, 2.5e-6, 4e-6}, .bytes = 8e6, .error = 1e-7};
    p.unfused = {
        .time = {2e-6 * repeats, 1e-6, 9e-6, 3}, .predicted = {1e-6, 2e-6 * repeats, 9e-6}, .bytes = 8e6 * repeats};
    out.points.push_back(p);
  }
  return out;
}

TEST(RepeatsReport, ShowsTimesAndRatesFusedAndUnfused) {
  EXPECT_EQ(
      format_repeats(make_benchmark()),
      "repeats  one kernel  predicted         FLOP/s         B/s  per repeat  predicted         FLOP/s         B/s\n"
      "      1    2.000 us   2.500 us  500.0 GFLOP/s  4.000 TB/s    2.000 us   2.000 us  500.0 GFLOP/s  4.000 TB/s\n"
      "      4    2.000 us   2.500 us  2.000 TFLOP/s  4.000 TB/s    8.000 us   8.000 us  500.0 GFLOP/s  4.000 TB/s\n"
      "\nmedian of 3 rounds of a cosine (1 FLOP) of 1 000 000 f32 elements, as one kernel and one per repeat\n"
      "NVIDIA H200 SXM, driver 13.0, sm_90a, 2026-01-02\n");
}

TEST(RepeatsReport, JsonHasTheSameNumbers) {
  const auto json = repeats_json(make_benchmark());
  EXPECT_EQ(json["schema"], "ridge.repeats/1");
  EXPECT_EQ(json["driver"], 13000);
  EXPECT_FALSE(json.contains("threads"));
  const auto& row = json["rows"][1];
  EXPECT_EQ(row["repeats"], 4);
  EXPECT_EQ(row["fused"]["measured_s"]["median"], 2e-6);
  EXPECT_EQ(row["fused"]["predicted_s"]["expected"], 2.5e-6);
  EXPECT_EQ(row["fused"]["flops_per_s"], 2e12);
  EXPECT_EQ(row["fused"]["bytes_per_s"], 4e12);
  EXPECT_EQ(row["unfused"]["flops_per_s"], 5e11);
  EXPECT_EQ(row["unfused"]["bytes_per_s"], 4e12);
}

TEST(RepeatsSvg, DrawsThreePanelsOfFourCurves) {
  const std::string svg = repeats_svg(make_benchmark());
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
