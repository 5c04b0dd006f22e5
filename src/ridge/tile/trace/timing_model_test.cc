#include "ridge/tile/trace/timing_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "ridge/base/float16.h"
#include "ridge/ops/product/matmul.h"
#include "ridge/tile/trace/record.h"

namespace ridge::tile::trace {
namespace {

using ops::Matmul, ops::MatmulConfig;

template <int stages> constexpr MatmulConfig one{.m = 64, .n = 64, .k = 64, .stages = stages, .consumers = 1};
constexpr MatmulConfig turns{.m = 64, .n = 64, .k = 64, .stages = 4, .consumers = 2, .roles = Roles::pingpong};

template <MatmulConfig config> Timeline simulate_matmul(const RecordOptions& options, const BlockRates& rates) {
  return simulate_timeline(record_program<Matmul<config, Bf16, Bf16, Bf16>>(options), rates);
}

// A tile has 8 KiB: a copy takes 128 ticks. A stage has 2 * 64^3 FLOPs: 256 ticks.
const BlockRates rates{.copy_bytes_per_tick = 64, .copy_latency = 500, .flops_per_tick = 2048};

Index first_begin(const Timeline& t, int lane) {
  Index at = 1 << 30;
  for (const Event& e : t.events)
    if (e.lane == lane) at = std::min(at, e.begin);
  return at;
}

TEST(TimingModel, TheFirstMultiplyStartsWhenTheFirstStageHasArrived) {
  const Timeline t = simulate_matmul<one<4>>({.kernel = "m", .sizes = {.m = 64, .n = 64, .k = 256}}, rates);
  ASSERT_EQ(t.lanes, (std::vector<std::string>{"copies", "multiplier", "stores", "producer", "consumer 0"}));
  EXPECT_EQ(first_begin(t, 0), 0);
  EXPECT_EQ(first_begin(t, 1), 2 * 128 + 500);
  EXPECT_EQ(t.count_ticks(0, Phase::load), 4 * 2 * 128);
  EXPECT_EQ(t.count_ticks(1, Phase::compute), 4 * 256);
}

TEST(TimingModel, ARingOfLatencyTimesBandwidthKeepsThePortBusy) {
  const RecordOptions options{.kernel = "m", .sizes = {.m = 64, .n = 64, .k = 64 * 40}};
  // A stage takes 256 ticks in the port, 500 in flight and 256 in the tensor cores, and is released one stage late:
  // five slots.
  const Index deep = simulate_matmul<one<6>>(options, rates).end_tick(),
              shallow = simulate_matmul<one<2>>(options, rates).end_tick();
  EXPECT_LT(deep, 40 * 256 + 500 + 256 + 1200);
  EXPECT_GT(shallow, 40 * (256 + 500 + 256) / 2);
  EXPECT_LE(simulate_matmul<one<7>>(options, rates).end_tick(), deep);
}

TEST(TimingModel, PingPongOverlapsStoresWithMultiplies) {
  const Timeline t = simulate_matmul<turns>({.kernel = "m", .sizes = {.m = 64 * 8, .n = 64, .k = 64}},
                                            {.copy_latency = 0, .flops_per_tick = 2048, .thread_bytes_per_tick = 16});
  bool overlap = false;
  for (const Event& a : t.events)
    for (const Event& b : t.events)
      overlap |= a.phase == Phase::drain && b.lane == 1 && a.begin < b.end && b.begin < a.end;
  EXPECT_TRUE(overlap);
}

TEST(TimingModel, EventsOfALaneAreDisjointAndComplete) {
  const Timeline t =
      simulate_matmul<one<3>>({.kernel = "m", .sizes = {.m = 192, .n = 64, .k = 320, .splits = 2}, .blocks = 2}, rates);
  EXPECT_EQ(t.lanes.size(), 2U * 3 + 2 * 2);
  EXPECT_EQ(t.count_ticks(1, Phase::compute) + t.count_ticks(4, Phase::compute), 3 * 5 * 256);
  std::map<int, std::vector<Event>> lanes;
  for (const Event& e : t.events) lanes[e.lane].push_back(e);
  for (auto& [lane, events] : lanes) {
    std::sort(events.begin(), events.end(), [](const Event& a, const Event& b) { return a.begin < b.begin; });
    for (std::size_t i = 1; i < events.size(); ++i) ASSERT_LE(events[i - 1].end, events[i].begin) << t.lanes[lane];
  }
}

TEST(TimingModel, TheShorterSplitWaitsForTheLongerOne) {  // splits of two and three stages
  const RecordOptions options{
      .kernel = "m",
      .sizes = {.m = 64, .n = 64, .k = 320, .splits = 2, .split_mode = SplitMode::cooperative_split_k},
      .blocks = 2};
  const Timeline t = simulate_matmul<one<3>>(options, rates);
  ASSERT_EQ(t.lanes[8], "block 0 consumer 0");
  ASSERT_EQ(t.lanes[9], "block 1 consumer 0");
  EXPECT_EQ(t.count_ticks(8, Phase::sync), 256);
  EXPECT_EQ(t.count_ticks(9, Phase::sync), 0);
}

}  // namespace
}  // namespace ridge::tile::trace
