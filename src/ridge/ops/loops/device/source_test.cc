// Tests generated kernels of recurrences, convolutions and folds. If NVRTC is found, the test compiles them, which
// needs no device.
#include "ridge/ops/loops/device/source.h"

#include <gtest/gtest.h>

#include "ridge/device/nvrtc.h"
#include "ridge/ops/loops/cuda.h"
#include "ridge/ops/loops/testing/random_cases.h"

namespace ridge::ops {
namespace {

constexpr int multiprocessors = 132;

std::vector<void*> pointers(std::size_t count, std::uintptr_t address = 4096) {
  return std::vector<void*>(count, reinterpret_cast<void*>(address));
}

// h = a * h + x over `steps` steps of `lines` lines; steps are contiguous, or else lines are.
RecurrenceLoops linear_recurrence(std::int64_t lines, std::int64_t steps, bool has_contiguous_steps) {
  using Kind = RecurrenceNode::Kind;
  RecurrenceLoops out{.extents = {lines, steps}, .operands = {}, .nodes = {}};
  const std::vector<std::int64_t> strides =
      has_contiguous_steps ? std::vector<std::int64_t>{steps, 1} : std::vector<std::int64_t>{1, lines};
  for (int i = 0; i < 3; ++i) out.operands.push_back({DType::bf16, strides});
  out.nodes = {{.kind = Kind::load, .operand = 0},
               {.kind = Kind::previous},
               {.kind = Kind::call, .function = Function::multiply, .arguments = {0, 1}},
               {.kind = Kind::load, .operand = 1},
               {.kind = Kind::call, .function = Function::add, .arguments = {2, 3}}};
  return out;
}
device::GeneratedKernel recurrence_kernel(const RecurrenceLoops& l, std::uintptr_t address = 4096) {
  return generate_recurrence_kernel(l, pointers(l.operands.size(), address), multiprocessors);
}

ConvLoops depthwise(std::int64_t size, std::int64_t kernel, std::int64_t stride) {
  const std::int64_t padding = kernel / 2, out = (size + 2 * padding - kernel) / stride + 1;
  return {.x = DType::bf16,
          .w = DType::bf16,
          .y = DType::bf16,
          .batch = 32,
          .channels = 256,
          .out_channels = 256,
          .groups = 256,
          .windows = {{size, out, kernel}, {size, out, kernel}},
          .stride = stride,
          .padding = padding};
}
ConvLoops with_channels_last(ConvLoops conv, std::int64_t channels = 256, std::int64_t multiplier = 1) {
  conv.channels = conv.groups = channels;
  conv.out_channels = channels * multiplier;
  conv.channels_last = true;
  return conv;
}
device::GeneratedKernel convolution_kernel(const ConvLoops& conv, std::uintptr_t address = 4096) {
  return generate_convolution_kernel(conv, pointers(3, address), multiprocessors);
}

device::GeneratedKernel fold_kernel(const FoldLoops& fold) { return generate_fold_kernel(fold, pointers(2)); }
FoldLoops upsampling(std::int64_t size) {
  const FoldAxis window{.positions = size, .out = 2 * size, .taps = 4, .stride = 2, .padding = 1};
  return {
      DType::f32,
      DType::bf16,
      {{.positions = 32, .out = 32, .position_stride = 16 * size * size, .y_stride = 4 * size * size}, window, window}};
}

bool has(const device::GeneratedKernel& kernel, std::string_view text) {
  return kernel.source.find(text) != std::string::npos;
}

TEST(GeneratedLoops, sources_do_not_depend_on_sizes) {
  EXPECT_EQ(recurrence_kernel(linear_recurrence(40000, 1600, true)).source,
            recurrence_kernel(linear_recurrence(50000, 3200, true)).source);
  EXPECT_EQ(convolution_kernel(depthwise(56, 3, 1)).source, convolution_kernel(depthwise(28, 3, 1)).source);
  EXPECT_EQ(convolution_kernel(with_channels_last(depthwise(56, 7, 1))).source,
            convolution_kernel(with_channels_last(depthwise(112, 7, 1))).source);
  EXPECT_EQ(fold_kernel(upsampling(56)).source, fold_kernel(upsampling(28)).source);
}

TEST(GeneratedLoops, contiguous_steps_are_read_in_vectors) {
  EXPECT_TRUE(has(recurrence_kernel(linear_recurrence(40000, 1600, true)), "read<NumberFormat::bf16, 16, 8,"));
  EXPECT_TRUE(has(recurrence_kernel(linear_recurrence(40000, 1600, true), 4098), "read<NumberFormat::bf16, 16, 1,"));
  EXPECT_TRUE(has(recurrence_kernel(linear_recurrence(40000, 1604, true)), "read_some<NumberFormat::bf16, 16, 4,"));
  EXPECT_TRUE(has(recurrence_kernel(linear_recurrence(40000, 1600, false)), "read_one<NumberFormat::bf16>"));
}

// Each thread runs a line; few lines are divided among more blocks.
TEST(GeneratedLoops, recurrences_have_a_thread_for_each_line) {
  const device::GeneratedKernel many = recurrence_kernel(linear_recurrence(40001, 16, false)),
                                few = recurrence_kernel(linear_recurrence(1000, 16, false));
  EXPECT_EQ(many.threads * many.blocks, 128 * 313);
  EXPECT_EQ(few.threads * few.blocks, 32 * 32);
  EXPECT_EQ(recurrence_kernel(linear_recurrence(0, 16, false)).blocks, 0);
}

// Offsets of 32 bits reach 2^30 positions and outputs.
TEST(GeneratedLoops, folds_have_a_thread_for_each_output) {
  const device::GeneratedKernel small = fold_kernel(upsampling(28)), large = fold_kernel(upsampling(1 << 13));
  EXPECT_EQ(small.threads * small.blocks, 32 * 56 * 56);
  EXPECT_TRUE(has(small, "using Index = u32"));
  EXPECT_TRUE(has(large, "using Index = u64"));
  EXPECT_EQ(fold_kernel({DType::f32, DType::f32, {{.positions = 0, .out = 0}}}).blocks, 0);
}

TEST(GeneratedLoops, convolutions_reuse_rows_unless_the_kernel_is_large) {
  EXPECT_TRUE(has(convolution_kernel(depthwise(56, 7, 1)), "convolve_down<window>"));
  EXPECT_TRUE(has(convolution_kernel(depthwise(56, 3, 2)), "convolve<window, false>"));
  EXPECT_TRUE(has(convolution_kernel(depthwise(56, 31, 1)), "convolve<window, true>"));
}

// The source ends with the channels of x, those of y for each of them, the channels and threads of a tile, its rows,
// its columns and the threads of a block.
TEST(GeneratedLoops, tiles_of_channels_fit_the_problem) {
  const ConvLoops large = with_channels_last(depthwise(56, 7, 1));
  EXPECT_TRUE(has(convolution_kernel(large), "1, 1, 256, 1, 2, 16, 2, 8, 128};"));
  EXPECT_TRUE(has(convolution_kernel(large, 4098), "1, 1, 256, 1, 1, 32, 4, 8, 128};")) << "pairs are not aligned";
  EXPECT_TRUE(has(convolution_kernel(with_channels_last(depthwise(56, 7, 1), 255)), "255, 1, 1, 32, 4, 8, 128};"));
  EXPECT_TRUE(has(convolution_kernel(with_channels_last(depthwise(56, 7, 1), 60, 2)), "60, 2, 1, 30, 4, 8, 128};"));
  EXPECT_TRUE(has(convolution_kernel(with_channels_last(depthwise(28, 7, 1))), "256, 1, 2, 16, 2, 7, 128};"));
  EXPECT_TRUE(has(convolution_kernel(with_channels_last(depthwise(56, 3, 2))), "256, 1, 2, 16, 1, 7, 128};"))
      << "rows share no pixels unless the stride equals the dilation";
  ConvLoops one = large;
  one.batch = 1;
  one.windows = {{7, 7, 7}, {7, 7, 7}};
  EXPECT_TRUE(has(convolution_kernel(one), "256, 1, 1, 32, 1, 1, 128};")) << "small tiles give all processors work";
  const std::int64_t blocks = 32 * 28 * 7 / 8 * 8;  // 8 tiles of 2 by 8 results and 8 blocks of 32 channels
  EXPECT_EQ(convolution_kernel(large).blocks, blocks);
  one.batch = 0;
  EXPECT_EQ(convolution_kernel(one).blocks, 0);
}

TEST(GeneratedLoops, channels_are_last_only_for_small_windows_of_one_channel) {
  EXPECT_TRUE(can_convolve_channels_last(depthwise(56, 7, 1)));
  EXPECT_TRUE(can_convolve_channels_last(depthwise(56, 7, 3)));
  EXPECT_FALSE(can_convolve_channels_last(depthwise(56, 31, 1)));
  ConvLoops conv = depthwise(99, 7, 1);
  conv.dilation = 5;
  EXPECT_TRUE(can_convolve_channels_last(conv));
  conv.dilation = 6;
  EXPECT_FALSE(can_convolve_channels_last(conv)) << "a row of the window reads 37 pixels from the first to the last";
  conv = with_channels_last(depthwise(56, 7, 1));
  conv.groups = 128;
  EXPECT_FALSE(can_convolve_channels_last(conv));
  EXPECT_EQ(cuda::unsupported_reason(conv).text(),
            "expected channels in second place, found them last with 128 groups of 2 channels; they may be last if "
            "each channel is a group of a small window");
}

TEST(GeneratedLoops, all_compile) {
  if (!device::find_nvrtc()) GTEST_SKIP() << "no NVRTC";
  std::vector<device::GeneratedKernel> kernels;
  for (const std::int64_t kernel : {3, 7, 31})
    for (const std::int64_t stride : {1, 2}) kernels.push_back(convolution_kernel(depthwise(56, kernel, stride)));
  ConvLoops large = with_channels_last(depthwise(56, 3, 1));
  large.batch = std::int64_t{1} << 24;
  kernels.push_back(convolution_kernel(large));
  EXPECT_TRUE(has(kernels.back(), "using Index = u64"));
  for (unsigned seed = 0; seed < 6; ++seed) {
    loops_testing::RandomLayouts random(seed);
    kernels.push_back(fold_kernel(loops_testing::make_fold_case(random).l));
    kernels.push_back(convolution_kernel(loops_testing::make_convolution_case(random, true)));
    const auto [l, elements] = loops_testing::make_scan_case(random);
    kernels.push_back(recurrence_kernel(l));
  }
  for (const device::GeneratedKernel& kernel : kernels) {
    const auto code = device::compile_to_cubin(kernel.source);
    ASSERT_TRUE(code) << code.error().message << "\n" << kernel.source;
  }
}

TEST(LoopsOnADevice, have_limits) {
  RunningSumLoops sums{DType::f32, DType::f32, {}, {4, 1, 0, 1}};
  for (std::int64_t a = 0; a < 13; ++a) sums.axes.push_back({2, 5 << a * 2, 0, 5 << (13 - a) * 2});
  EXPECT_EQ(cuda::unsupported_reason(sums).text(),
            "its tensors have 13 axes that cannot be merged; expected at most 12; --on cpu takes any number");
  FoldLoops fold{DType::f32, DType::f32, {}};
  for (std::int64_t a = 0; a < 7; ++a) fold.axes.push_back({.positions = 2, .out = 4, .taps = 2, .stride = 2});
  EXPECT_EQ(cuda::unsupported_reason(fold).text(),
            "its tensors have 7 axes that cannot be merged; expected at most 6; --on cpu takes any number");
  const std::int64_t many = std::int64_t{1} << 31;
  EXPECT_EQ(cuda::unsupported_reason(TopKLoops{.axes = {}, .axis = {many, 1, 0, 0}}).text(),
            "its lines have 2147483648 elements; a device takes at most 1073741824; --on cpu runs it");
  EXPECT_EQ(cuda::unsupported_reason(
                GatherScatterLoops{.is_scatter = true, .axes = {{many, 1, 1, 0}}, .index_extent = 7, .index_stride = 1})
                .text(),
            "it adds 2147483648 rows to 7; a device takes at most 1073741824 of either; --on cpu runs it");
  EXPECT_EQ(cuda::unsupported_reason(RoutedProductLoops{.weights = DType::int8}).text(),
            "expected f32, bf16 or f16, found int8; --on cpu takes any");
  EXPECT_EQ(cuda::unsupported_reason(RoutedProductLoops{.capacity = 3}).text(),
            "a limit on the rows of an expert needs rows that are sorted by expert, which their layouts do not allow; "
            "--on cpu runs it");
  EXPECT_FALSE(cuda::unsupported_reason(RoutedProductLoops{}));
  EXPECT_FALSE(cuda::unsupported_reason(GatherScatterLoops{.axes = {{many, 0, 1, 1}}, .index_extent = 7}));
}

}  // namespace
}  // namespace ridge::ops
