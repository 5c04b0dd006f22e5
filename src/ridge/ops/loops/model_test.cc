// Bytes and costs of loops: which of two problems takes longer, and exact bytes.
#include "ridge/ops/loops/model.h"

#include <gtest/gtest.h>

#include <cmath>

#include "ridge/ops/fitted.h"

namespace ridge::ops {
namespace {

GatherScatterLoops make_rows(bool is_scatter, std::int64_t rows, std::int64_t width) {
  const std::int64_t table_rows = std::int64_t{1} << 40;  // Exceeds every cache
  return {.is_scatter = is_scatter,
          .values = DType::bf16,
          .result = DType::bf16,
          .axes = {{rows, is_scatter ? width : 0, 1, is_scatter ? 0 : width}, {width, 1, 0, 1}},
          .index_extent = is_scatter ? 100 : table_rows,
          .index_stride = width,
          .result_elements = (is_scatter ? 100 : rows) * width};
}

// A row of 10 bf16 is read once; its line is read and written when it is stored.
TEST(LoopsModel, counts_the_bytes_of_rows_and_indices) {
  EXPECT_EQ(cpu_forecast(make_rows(false, 7, 10), 1).memory_bytes, 7 * 4 + 7 * 20 + 2 * 7 * 20);
  EXPECT_EQ(cpu_forecast(make_rows(true, 7, 10), 1).memory_bytes, 7 * 4 + 7 * 20 + 2 * 100 * 20);
  const RunningSumLoops sums{DType::f32, DType::bf16, {{3, 5, 0, 5}}, {5, 1, 0, 1}};
  EXPECT_EQ(cpu_forecast(sums, 1).memory_bytes, 15 * 4 + 2 * 15 * 2);
  EXPECT_EQ(cpu_forecast(DequantizeLoops{DType::mxfp4, DType::bf16, 32}, 1).memory_bytes, 17 + 3 * 64);
}

// A table that stays in the caches is read from memory once.
TEST(LoopsModel, counts_a_small_table_once) {
  GatherScatterLoops l = make_rows(false, 1000, 10);
  l.index_extent = 4;
  EXPECT_EQ(cpu_forecast(l, 1).memory_bytes, 1000 * 4 + 4 * 20 + 2 * 1000 * 20);
}

constexpr DeviceNumbers hopper{.multiprocessors = 132,
                               .clock_hz = 1.7e9,
                               .busy_clock_hz = 1.5e9,
                               .memory_bytes_per_s = 4e12,
                               .l2_bytes_per_s = 8e12,
                               .l2_bytes = 50 << 20,
                               .launch_s = 1e-6};
std::int64_t device_bytes(const auto& loops) { return forecast(loops, hopper)->count_bytes().memory_bytes; }

// Rows of 10 bf16 are read in whole sectors of 32 bytes.
TEST(LoopsModel, counts_what_a_device_moves_once) {
  EXPECT_EQ(device_bytes(make_rows(false, 7, 10)), 7 * 4 + 7 * 32 + 7 * 20);
  EXPECT_EQ(device_bytes(make_rows(true, 7, 10)), 7 * 4 + 7 * 20 + 100 * 20);
  GatherScatterLoops small_table = make_rows(false, 1000, 10);
  small_table.index_extent = 4;
  EXPECT_EQ(device_bytes(small_table), 1000 * 4 + 4 * 20 + 1000 * 20);
  EXPECT_EQ(device_bytes(RunningSumLoops{DType::f32, DType::bf16, {{3, 5, 0, 5}}, {5, 1, 0, 1}}), 15 * 4 + 15 * 2);
  EXPECT_EQ(device_bytes(DequantizeLoops{DType::mxfp4, DType::bf16, 32}), 17 + 64);
  EXPECT_EQ(device_bytes(QuantizeLoops{DType::f32, DType::nvfp4, {{2, 32, 0, 32}}, {32, 1, 0, 1}}), 64 * 4 + 4 * 9);
  EXPECT_EQ(device_bytes(PoolLoops{DType::f32, DType::bf16, true, {{3, 3, 1}, {11, 5, 3, 2}}}), 33 * 4 + 15 * 2);
  EXPECT_EQ(
      device_bytes(FoldLoops{DType::f32, DType::bf16, {{3, 3}, {.positions = 5, .out = 11, .taps = 3, .stride = 2}}}),
      3 * 5 * 3 * 4 + 33 * 2);
  EXPECT_EQ(device_bytes(RotaryLoops{.axes = {{5, 24, 1, 24}, {4, 6, 0, 6}}, .axis = {6, 1, 0, 1}}),
            120 * 4 + 5 * 4 + 120 * 4);
}

// Two kernels add rows to few targets; for many there are also a histogram, its sums and a pass for each byte of a
// target, between one that writes keys and one that finds where each target begins.
TEST(LoopsModel, counts_the_launches_of_scatters_on_a_device) {
  const auto launches = [](std::int64_t targets, std::int64_t batches) {
    const GatherScatterLoops l{.is_scatter = true,
                               .axes = {{batches, 80, 10, targets * 8}, {10, 8, 1, 0}, {8, 1, 0, 1}},
                               .index_extent = targets,
                               .index_stride = 8,
                               .result_elements = batches * targets * 8};
    DeviceNumbers slow = hopper;
    slow.launch_s += 1;
    return std::lround(forecast(l, slow)->seconds - forecast(l, hopper)->seconds);
  };
  EXPECT_EQ(launches(100, 1), 2);
  EXPECT_EQ(launches(640 * 1024, 1), 2);
  EXPECT_EQ(launches(640 * 1024 + 1, 1), 8);
  EXPECT_EQ(launches(320 * 1024, 3), 8);
  EXPECT_EQ(launches((1 << 24) + 1, 1), 9);
}

// Each slice of 512 bytes of a row sorts the rows again.
TEST(LoopsModel, wide_rows_of_scatters_are_sorted_for_each_slice) {
  KernelConstants constants = kernel_constants();
  constants.scatter_time_factor = 1;
  const KernelConstantsOverride counted(constants);
  const auto seconds = [](std::int64_t columns) {
    DeviceNumbers slow = hopper;
    slow.l2_bytes_per_s = 1;
    const GatherScatterLoops l{.is_scatter = true,
                               .axes = {{10, columns, 1, 0}, {columns, 1, 0, 1}},
                               .index_extent = 3,
                               .index_stride = columns,
                               .result_elements = 3 * columns};
    return std::lround(forecast(l, slow)->seconds);
  };
  EXPECT_EQ(seconds(128), 10 * 4 * (1 + 2 * 2));
  EXPECT_EQ(seconds(129), 10 * 4 * (1 + 2 * 3));
}

// A step waits for the previous one, however few lines there are.
TEST(LoopsModel, recurrences_take_time_for_each_step_on_a_device) {
  const auto seconds = [](std::int64_t lines, std::int64_t steps) {
    return forecast(RecurrenceLoops{.extents = {lines, steps},
                                    .operands = {{DType::f32, {steps, 1}}, {DType::f32, {steps, 1}}},
                                    .nodes = {{.kind = RecurrenceNode::Kind::load}}},
                    hopper)
        ->seconds;
  };
  EXPECT_EQ(seconds(1, 4096), seconds(100, 4096));
  EXPECT_NEAR(seconds(1, 8192) - hopper.launch_s, 2 * (seconds(1, 4096) - hopper.launch_s), 1e-12);
  EXPECT_GT(seconds(1 << 20, 4096), 10 * seconds(1, 4096));
}

TEST(LoopsModel, predicts_the_method_of_top_k_on_a_device) {
  const auto kernel = [](std::int64_t n, std::int64_t count) {
    return forecast(TopKLoops{.axes = {{1000, n, 0, count}}, .axis = {n, 1, 0, 0}, .count = count}, hopper)
        ->plan.kernel;
  };
  EXPECT_EQ(kernel(512, 32), "topk_warp");
  EXPECT_EQ(kernel(513, 32), "topk_select");
  EXPECT_EQ(kernel(4096, 1024), "topk_select");
  EXPECT_EQ(kernel(4095, 1024), "sort_lines");
  EXPECT_EQ(kernel(8193, 8193), "sort");
}

TEST(LoopsModel, sorting_costs_more_than_selecting) {
  const TopKLoops few{.axes = {}, .axis = {1000, 1, 0, 0}, .count = 2},
      all{.axes = {}, .axis = {1000, 1, 0, 0}, .count = 1000};
  EXPECT_GT(cpu_forecast(all, 1).vector_flops, 10 * cpu_forecast(few, 1).vector_flops);
}

TEST(LoopsModel, a_direct_convolution_adds_whole_vectors) {
  ConvLoops conv{.batch = 1, .channels = 2, .out_channels = 2, .groups = 2, .windows = {{9, 7, 3}, {9, 7, 3}}};
  const double narrow = cpu_forecast(conv, 1).vector_flops;
  conv.windows[1] = {18, 16, 3};  // a row of 7 outputs takes as long as one of 16
  const double wide = cpu_forecast(conv, 1).vector_flops, sums = 2 * 7 * 16 * 9;
  EXPECT_GT(narrow, 2 * sums);
  EXPECT_LT(wide, 1.1 * narrow);
}

TEST(LoopsModel, a_depthwise_convolution_fills_blocks_of_channels) {
  ConvLoops conv{.batch = 1, .channels = 16, .out_channels = 16, .groups = 16, .windows = {{9, 7, 3}, {9, 7, 3}}};
  const double one = cpu_forecast(conv, 1).vector_flops;
  conv.channels = conv.out_channels = conv.groups = 31;
  EXPECT_NEAR(cpu_forecast(conv, 1).vector_flops, 2 * one, 0.1 * one);
  const double transposed = cpu_forecast(conv, 1).vector_flops;
  conv.channels_last = true;
  EXPECT_LT(cpu_forecast(conv, 1).vector_flops, transposed);
}

// The device computes faster without its copies to channels second, and forecasts follow the tiles' instructions.
TEST(LoopsModel, a_device_loads_pixels_of_channels_once_for_a_tile) {
  ConvLoops conv{.x = DType::bf16,
                 .w = DType::bf16,
                 .y = DType::bf16,
                 .batch = 32,
                 .channels = 96,
                 .out_channels = 96,
                 .groups = 96,
                 .windows = {{56, 56, 7}, {56, 56, 7}},
                 .padding = 3};
  const double second = forecast(conv, hopper)->seconds;
  conv.channels_last = true;
  const double last = forecast(conv, hopper)->seconds, products = 32.0 * 96 * 56 * 56 * 49;
  EXPECT_LT(last, second);
  EXPECT_GT(last, products / 128 / 132 / hopper.clock_hz);
}

TEST(LoopsModel, a_recurrence_costs_its_functions) {
  const RecurrenceOperand line{DType::f32, {1, 256}};
  const RecurrenceLoops l{{256, 9},
                          {line, line},
                          {{.kind = RecurrenceNode::Kind::previous},
                           {.kind = RecurrenceNode::Kind::call, .function = Function::exp, .arguments = {0}}}};
  const auto cost = [&](double flops) { return cpu_forecast(l, 1, [=](Function) { return flops; }).vector_flops; };
  EXPECT_EQ(cost(100) - cost(0), 256 * 9 * 100);
}

TEST(LoopsModel, single_element_loops_have_none) {
  EXPECT_FALSE(cpu_forecast(RoutedProductLoops{}, 1).has_model);
  EXPECT_TRUE(cpu_forecast(TopKLoops{.axes = {}, .axis = {}}, 1).has_model);
}

}  // namespace
}  // namespace ridge::ops
