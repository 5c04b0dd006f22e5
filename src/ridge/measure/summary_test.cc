// Every value of a summary, from given samples and from random samples with a second method.
#include "ridge/measure/run.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "ridge/program/program.h"

namespace ridge {
namespace {

Explanation two_operations() {
  Explanation explanation;
  explanation.ops.resize(2);
  explanation.ops[0].time_lower_s = 2e-3;
  explanation.total.time_lower_s = 5.5e-3;
  return explanation;
}

TEST(Summary, CpuOverheadUsesSumsOverAllPasses) {
  Measurement m;
  summarize_samples(two_operations(), {{4e-3, 4e-3, 2e-3}, {5e-3, 7e-3, 3e-3}}, {10e-3, 12e-3, 6e-3},
                    OverheadMethod::sums, m);
  EXPECT_EQ(m.total.time, (Statistics{10e-3, 6e-3, 12e-3, 3}));
  EXPECT_DOUBLE_EQ(*m.total.fraction_of_roof, 0.55);
  EXPECT_DOUBLE_EQ(m.total.share, 1);
  ASSERT_EQ(m.ops.size(), 2u);
  EXPECT_EQ(m.ops[0].time, (Statistics{4e-3, 2e-3, 4e-3, 3}));
  EXPECT_EQ(m.ops[1].time, (Statistics{5e-3, 3e-3, 7e-3, 3}));
  EXPECT_DOUBLE_EQ(*m.ops[0].fraction_of_roof, 0.5);
  EXPECT_FALSE(m.ops[1].fraction_of_roof) << "no bound is known";
  EXPECT_DOUBLE_EQ(m.ops[0].share, 10.0 / 28);
  EXPECT_DOUBLE_EQ(m.ops[1].share, 15.0 / 28);
  EXPECT_NEAR(m.overhead_s, 1e-3, 1e-15) << "3 ms of three passes";
}

// Tensors of 1 kB in a cache of 4 kB at 1 MB/s: they take at least 1 ms, whatever the memory's rate.
TEST(Summary, CacheResidentTensorsUseTheCacheBandwidth) {
  Explanation e = two_operations();
  e.memory = MemoryUse{.tensors = {{.name = "x", .bytes_formula = {}, .device_bytes = 1000}}};
  for (Prediction* p : {&e.ops[0], &e.ops[1], &e.total}) {
    p->bytes = 1000;
    p->time_lower_s = 2e-3;
  }
  SourcedValue rate, size;
  rate.value = 1e6;
  size.value = 4000;
  e.machine.memory = {{.name = "dram", .bandwidth = rate, .capacity = {}},
                      {.name = "l2", .bandwidth = rate, .capacity = size}};
  Measurement guessed, probed, device;
  summarize_samples(e, {{4e-3}, {4e-3}}, {8e-3}, OverheadMethod::sums, guessed);
  EXPECT_EQ(guessed.ops[0].cache, "l2");
  EXPECT_FALSE(guessed.ops[0].fraction_of_roof) << "its rate was not measured";
  e.machine.memory[1].bandwidth->origin = Origin::measured;
  summarize_samples(e, {{4e-3}, {4e-3}}, {8e-3}, OverheadMethod::sums, probed);
  EXPECT_DOUBLE_EQ(*probed.ops[0].fraction_of_roof, 0.25);
  EXPECT_DOUBLE_EQ(*probed.total.fraction_of_roof, 0.125);
  summarize_samples(e, {{4e-3}, {4e-3}}, {8e-3}, OverheadMethod::medians, device);
  EXPECT_EQ(device.ops[0].cache, "") << "passes on cold caches";
  EXPECT_DOUBLE_EQ(*device.ops[0].fraction_of_roof, 0.5);
}

TEST(Summary, DeviceOverheadUsesMedians) {
  Measurement m;
  summarize_samples(two_operations(), {{4e-3, 9e-3, 2e-3}, {5e-3}}, {10e-3, 12e-3, 6e-3}, OverheadMethod::medians, m);
  EXPECT_DOUBLE_EQ(m.ops[0].share, 4.0 / 9);
  EXPECT_DOUBLE_EQ(m.ops[1].share, 5.0 / 9);
  EXPECT_NEAR(m.overhead_s, 1e-3, 1e-15);
  EXPECT_EQ(m.ops[0].time.runs, 3);
  EXPECT_EQ(m.ops[1].time.runs, 1);
}

TEST(Summary, OverheadIsNeverNegative) {
  for (const OverheadMethod between : {OverheadMethod::sums, OverheadMethod::medians}) {
    Measurement m;
    summarize_samples(two_operations(), {{4e-3}, {5e-3}}, {8e-3}, between, m);
    EXPECT_EQ(m.overhead_s, 0);
  }
  Measurement zero;
  summarize_samples(two_operations(), {{0.0}, {0.0}}, {0.0}, OverheadMethod::sums, zero);
  EXPECT_EQ(zero.ops[0].share, 0);
  EXPECT_FALSE(zero.ops[0].fraction_of_roof);
  EXPECT_EQ(zero.overhead_s, 0);
}

// Passes composed of random parts: the summary recovers the parts.
TEST(Summary, RecoversOperationTimesAndOverhead) {
  std::mt19937 random(9);
  const auto some = [&] { return 1e-6 * static_cast<double>(1 + random() % 1000); };
  for (int i = 0; i < 500; ++i) {
    Explanation explanation;
    explanation.ops.resize(1 + random() % 5);
    const std::size_t passes = 1 + random() % 9;
    std::vector<std::vector<double>> samples(explanation.ops.size());
    std::vector<double> walls(passes), first;
    double between = 0, all = 0;
    for (double& wall : walls) {
      wall = some();
      between += wall;
      for (std::vector<double>& op : samples) {
        op.push_back(some());
        wall += op.back();
      }
      all += wall;
      first.push_back(samples[0].back());
    }
    Measurement m;
    summarize_samples(explanation, samples, walls, OverheadMethod::sums, m);
    ASSERT_NEAR(m.overhead_s, between / static_cast<double>(passes), 1e-12) << i;
    double shares = m.overhead_s * static_cast<double>(passes) / all;
    for (const OpMeasurement& op : m.ops) shares += op.share;
    ASSERT_NEAR(shares, 1, 1e-9) << i;
    std::sort(first.begin(), first.end());
    ASSERT_EQ(m.ops[0].time.min, first.front()) << i;
    ASSERT_EQ(m.ops[0].time.max, first.back()) << i;
    ASSERT_DOUBLE_EQ(2 * m.ops[0].time.median, first[passes / 2] + first[(passes - 1) / 2]) << i;
    ASSERT_EQ(m.total.time.runs, static_cast<int>(passes)) << i;
  }
}

TEST(MedianInterval, EndsAreOrderStatistics) {
  std::vector<double> samples;
  for (int i = 1; i <= 100; ++i) samples.push_back(i);
  const MedianInterval all = compute_median_interval(samples);
  EXPECT_DOUBLE_EQ(all.median, 50.5);
  EXPECT_DOUBLE_EQ(all.low, 40);  // the 40th and the 61st, as a table of the sign test gives for 100
  EXPECT_DOUBLE_EQ(all.high, 61);
  const MedianInterval few = compute_median_interval({3, 1, 2});
  EXPECT_DOUBLE_EQ(few.low, 1);
  EXPECT_DOUBLE_EQ(few.high, 3);
  EXPECT_EQ(compute_median_interval({}).samples, 0);
}

// The interval contains the true median for about 950 of 1,000 sets of 41 random numbers.
TEST(MedianInterval, ContainsTheMedianInTheExpectedFraction) {
  std::mt19937 random(1);
  std::lognormal_distribution<double> skewed(0, 1);  // its median is 1
  int hits = 0;
  for (int set = 0; set < 1000; ++set) {
    std::vector<double> samples(41);
    for (double& sample : samples) sample = skewed(random);
    const MedianInterval interval = compute_median_interval(samples);
    hits += interval.low <= 1 && interval.high >= 1;
  }
  EXPECT_GE(hits, 930);
  EXPECT_LE(hits, 985);
}

}  // namespace
}  // namespace ridge
