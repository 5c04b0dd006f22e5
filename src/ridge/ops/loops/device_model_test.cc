// Predictions of loops on a device: exact counts, with constants and rates of 1.
#include <gtest/gtest.h>

#include "ridge/ops/fitted.h"
#include "ridge/ops/loops/model.h"

namespace ridge::ops {
namespace {

// Seconds are cycles. Memory and launches take no time, and a cycle issues one instruction of one lane.
constexpr DeviceNumbers cycle_device{.multiprocessors = 1,
                                     .clock_hz = 1,
                                     .busy_clock_hz = 1,
                                     .memory_bytes_per_s = 1e30,
                                     .l2_bytes_per_s = 1e30,
                                     .l2_bytes = 50 << 20,
                                     .launch_s = 0};

class LoopsDeviceModel : public testing::Test {
 protected:
  static KernelConstants make_constants() {
    KernelConstants out = kernel_constants();
    out.lanes_per_multiprocessor = 1;
    out.gather_wait_cycles = 1000;
    out.gather_item_instructions = 7;
    out.running_sum_wait_cycles = 1e6;
    out.sum_along_factor = 1;
    out.sum_across_factor = 2;
    out.recurrence_load_cycles = 1000;
    out.recurrence_access_cycles = 1;
    out.select_wait_cycles = 1e9;
    out.select_key_cycles = 1e4;
    out.routed_time_factor = 3;
    out.rotary_wait_cycles = 1000;
    out.rotary_time_factor = 2;
    return out;
  }
  KernelConstants constants_ = make_constants();
  KernelConstantsOverride override_{constants_};
};

double cycles_of(const auto& loops, const DeviceNumbers& device = cycle_device) {
  return forecast(loops, device)->seconds;
}

// Two rows of 16 results, 64 terms each: 2.5 instructions of a lane for each product, or 30 if the terms are not
// adjacent. The factor is 3.
TEST_F(LoopsDeviceModel, routed_products_issue_instructions_for_each_term) {
  RoutedProductLoops l{.values = DType::bf16, .weights = DType::bf16, .result = DType::bf16};
  l.axes = {{2, 64, 1, 16}, {16, 0, 0, 1}};
  l.weight_strides = {0, 64};
  l.summed = {{64, 1, 0, 0}};
  l.summed_weight_strides = {1};
  l.experts = 4;
  l.expert_stride = 16 * 64;
  l.index_count = 2;
  EXPECT_DOUBLE_EQ(cycles_of(l), 3 * 2 * 16 * 64 * 2.5);
  l.weight_strides = {0, 1};
  l.summed_weight_strides = {16};
  EXPECT_DOUBLE_EQ(cycles_of(l), 3 * 2 * 16 * 64 * 30);
}

// A block rotates 16 lines of 128 pairs with the rotations that it computes once, and more lines of fewer pairs.
TEST_F(LoopsDeviceModel, rotations_are_computed_once_for_the_lines_of_a_block) {
  RotaryLoops l{.values = DType::bf16, .result = DType::bf16, .axes = {{5, 8192, 1, 8192}, {32, 256, 0, 256}}};
  l.axis = {256, 1, 0, 1};
  EXPECT_DOUBLE_EQ(cycles_of(l), 1000 + 2 * 5 * 32 * 128 * (12 + 80.0 / 16));
  l.axis.extent = 64;
  EXPECT_DOUBLE_EQ(cycles_of(l), 1000 + 2 * 5 * 32 * 32 * (12 + 80.0 / 32));
}

// A row of 40 bf16 is copied in five accesses of 16 bytes.
TEST_F(LoopsDeviceModel, gathers_take_time_for_each_access) {
  const GatherScatterLoops rows{.values = DType::bf16,
                                .result = DType::bf16,
                                .axes = {{3, 0, 1, 40}, {40, 1, 0, 1}},
                                .index_extent = 9,
                                .index_stride = 40};
  EXPECT_DOUBLE_EQ(cycles_of(rows), 1000 + 3 * 5 * 7);
}

RunningSumLoops make_sums(std::int64_t lines, std::int64_t extent, bool is_along) {
  const LoopAxis along{extent, 1, 0, 1}, across{lines, 1, 0, 1};
  if (is_along) return {DType::f32, DType::f32, {{lines, extent, 0, extent}}, along};
  return {DType::f32, DType::f32, {across}, {extent, lines, 0, lines}};
}

// Sums across lines visit each element twice if threads share a line, and a third time if a line is split. A visit has
// 18 instructions and a store 16; the factor is 2.
TEST_F(LoopsDeviceModel, running_sums_across_lines_visit_elements_up_to_three_times) {
  const double stored = 18 + 16, visited = 18;
  EXPECT_DOUBLE_EQ(cycles_of(make_sums(2048, 40, false)), 1e6 + 2 * 2048 * 40 * stored);
  EXPECT_DOUBLE_EQ(cycles_of(make_sums(512, 40, false)), 1e6 + 2 * 512 * 40 * (stored + visited));
  EXPECT_DOUBLE_EQ(cycles_of(make_sums(32, 4096, false)), 2e6 + 2 * 32 * 4096.0 * (stored + 2 * visited));
}

// Tiles of 512 f32 of a warp are computed in full: lines of 128 take as long as those of 512 except for their stores.
TEST_F(LoopsDeviceModel, running_sums_along_lines_compute_full_tiles) {
  const double store = 12, few = cycles_of(make_sums(2000, 128, true)), many = cycles_of(make_sums(2000, 512, true));
  EXPECT_DOUBLE_EQ(many - few, 2000 * (512 - 128) * store);
  EXPECT_GT(few, 1e6 + 2000 * 512 * 10);
}

RecurrenceLoops make_recurrence(DType dtype, std::int64_t lines, std::int64_t steps) {
  return {.extents = {lines, steps},
          .operands = {{dtype, {steps, 1}}, {dtype, {steps, 1}}},
          .nodes = {{.kind = RecurrenceNode::Kind::load}}};
}

// 16 contiguous steps take four accesses in f32 or two in bf16, to load and to store, each by 32 lanes in different
// lines.
TEST_F(LoopsDeviceModel, recurrences_wait_for_the_loads_of_16_steps) {
  constants_.lanes_per_multiprocessor = 1e9;
  EXPECT_DOUBLE_EQ(cycles_of(make_recurrence(DType::f32, 1, 33)), 3 * (1000 + 8 * 32));
  EXPECT_DOUBLE_EQ(cycles_of(make_recurrence(DType::bf16, 1, 33)), 3 * (1000 + 4 * 32));
  EXPECT_DOUBLE_EQ(cycles_of(make_recurrence(DType::f32, 32 * 4 * 5, 16)), 5 * 4 * 8 * 32) << "warps take turns";
}

// The keys of a multiprocessor's blocks are counted in turn; two blocks of two lines run on one multiprocessor.
TEST_F(LoopsDeviceModel, selections_count_the_keys_of_long_parts) {
  const auto cycles = [](std::int64_t lines, std::int64_t n) {
    return cycles_of(TopKLoops{.axes = {{lines, n, 0, 8}}, .axis = {n, 1, 0, 0}, .count = 8});
  };
  EXPECT_DOUBLE_EQ(cycles(2, 4096), 1e9 + 2 * 4096 * 1e4);
  EXPECT_DOUBLE_EQ(cycles(1, 8192), 2e9 + 2 * 4096 * 1e4) << "two parts, whose selections a second launch merges";
  EXPECT_LT(cycles(2, 2048), 1e9 + 2048 * 1e4) << "all keys of a short line are sorted";
}

// An image has 784 blocks: twelve images take as long as one on 10,000 multiprocessors.
TEST_F(LoopsDeviceModel, depthwise_convolutions_end_with_their_busiest_multiprocessor) {
  const auto cycles = [](std::int64_t images) {
    const ConvLoops conv{.x = DType::bf16,
                         .w = DType::bf16,
                         .y = DType::bf16,
                         .batch = images,
                         .channels = 32,
                         .out_channels = 32,
                         .groups = 32,
                         .windows = {{56, 56, 3}, {56, 56, 3}},
                         .padding = 1,
                         .channels_last = true};
    DeviceNumbers many = cycle_device;
    many.multiprocessors = 10'000;
    return cycles_of(conv, many);
  };
  EXPECT_DOUBLE_EQ(cycles(12), cycles(1));
  EXPECT_DOUBLE_EQ(cycles(13), 2 * cycles(1));
}

// Kernels without timings state a wide interval.
TEST(LoopsDeviceIntervals, are_narrow_only_for_timed_kernels) {
  const PredictionSpread sums = forecast(make_sums(10, 10, true), cycle_device)->spread,
                         dequantized = forecast(DequantizeLoops{DType::mxfp4, DType::bf16, 32}, cycle_device)->spread;
  EXPECT_EQ(dequantized.low, loops_spread.low);
  EXPECT_GT(sums.low, loops_spread.low);
  EXPECT_LT(sums.high, loops_spread.high);
}

}  // namespace
}  // namespace ridge::ops
