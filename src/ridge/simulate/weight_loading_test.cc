#include "ridge/simulate/weight_loading.h"

#include <gtest/gtest.h>

#include <random>

namespace ridge {
namespace {

constexpr Dataflow ws = Dataflow::weight_stationary;
const SystolicArray tpu{256, 256, ws};

TEST(WeightLoading, TpuV1FetchesATileIn1349CyclesAndIsBoundByThemBelowThatBatch) {
  const WeightReport report = estimate_weight_loading(tpu, {200, 2048, 2048}, {}).value();
  EXPECT_EQ(report.tiles, 64);
  EXPECT_NEAR(report.fetch_cycles, 1349.27, 0.01);
  EXPECT_EQ(report.limiter, "weights");
  EXPECT_NEAR(report.steady_fraction, 0.148, 5e-4);
  EXPECT_EQ(estimate_weight_loading(tpu, {1349, 256, 256}, {})->limiter, "weights");
  EXPECT_EQ(estimate_weight_loading(tpu, {1350, 256, 256}, {})->limiter, "compute");
  EXPECT_EQ(estimate_weight_loading(tpu, {100, 256, 256}, {.bytes_per_second = 1e12})->limiter, "shift");
}

TEST(WeightLoading, ClosedFormEqualsSimulation) {
  std::mt19937 random(5);
  const auto random_up_to = [&](int n) { return static_cast<std::int64_t>(1 + random() % static_cast<unsigned>(n)); };
  for (int i = 0; i < 3000; ++i) {
    const SystolicArray array{random_up_to(12), random_up_to(12), ws};
    const ProductSize product{random_up_to(40), random_up_to(50), random_up_to(50)};
    const WeightMemory memory{static_cast<double>(random_up_to(300)), static_cast<double>(random_up_to(40)), 1,
                              1 + random_up_to(4), random_up_to(2)};
    const WeightReport closed = estimate_weight_loading(array, product, memory).value();
    const WeightReport clocked = simulate_weight_loading(array, product, memory)->report;
    ASSERT_NEAR(clocked.cycles, closed.cycles, 1e-9 * closed.cycles) << closed.to_text();
    ASSERT_NEAR(clocked.stall_cycles, closed.stall_cycles, 1e-9 * closed.cycles);
    ASSERT_NEAR(clocked.active_fraction, closed.active_fraction, 1e-9);
  }
}

TEST(WeightLoading, AFifoOfOneTileIsSlower) {
  const WeightMemory two{.bytes_per_second = 256, .clock_hz = 64, .fifo_tiles = 2}, one{256, 64, 1, 1};
  const SystolicArray array{8, 8, ws};  // fetch 16 cycles, shift 8
  EXPECT_DOUBLE_EQ(simulate_weight_loading(array, {4, 64, 64}, two)->report.cycles, 16 + 8 + 63 * 16 + 4 + 14);
  EXPECT_DOUBLE_EQ(simulate_weight_loading(array, {4, 64, 64}, one)->report.cycles, 16 + 8 + 63 * 24 + 4 + 14);
}

TEST(WeightLoading, TimelineShowsTheWaitForEveryTile) {
  const Timeline timeline = simulate_weight_loading({4, 4, ws}, {3, 4, 8}, {.bytes_per_second = 16, .clock_hz = 10})
                                .value()
                                .timeline;  // fetch 10
  const std::vector<Event> expected{
      {0, Phase::load, 0, 10, 0},     {1, Phase::load, 10, 14, 0},    {2, Phase::stall, 0, 14, 0},
      {2, Phase::compute, 14, 17, 0}, {0, Phase::load, 10, 20, 1},    {1, Phase::load, 20, 24, 1},
      {2, Phase::stall, 17, 24, 1},   {2, Phase::compute, 24, 27, 1}, {2, Phase::drain, 27, 33, 0}};
  EXPECT_EQ(timeline.events, expected);
  EXPECT_EQ(timeline.lanes, (std::vector<std::string>{"fetch", "shift", "array"}));
}

TEST(WeightLoading, BoundsThePapersCounters) {
  for (const TpuV1Row& row : tpu_v1_applications())
    if (row.modelled) {
      EXPECT_GT(*row.modelled, row.measured_active) << "the model is an upper bound";
    }
}

TEST(WeightLoading, RejectsInvalidConfigurations) {
  const auto message = [](SystolicArray array, WeightMemory memory) {
    return estimate_weight_loading(array, {4, 4, 4}, memory).error().message;
  };
  EXPECT_EQ(message({4, 4, Dataflow::output_stationary}, {}), "expected the dataflow ws, found os");
  EXPECT_EQ(message(tpu, {.bytes_per_second = 0}), "expected a bandwidth above 0, found 0");
  EXPECT_EQ(message(tpu, {.clock_hz = std::nan("")}), "expected a clock above 0, found nan");
  EXPECT_EQ(message(tpu, {.fifo_tiles = 0}), "expected a FIFO of 1 to 65536 tiles, found 0");
  EXPECT_EQ(message(tpu, {.fifo_tiles = 1}), "the closed form needs a FIFO of at least 2 tiles, found 1");
  EXPECT_EQ(message(tpu, {.cycles_per_row = 0}), "expected 1 to 1024 cycles a row, found 0");
}

}  // namespace
}  // namespace ridge
