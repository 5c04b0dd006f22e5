#include "ridge/simulate/scratchpad.h"

#include <gtest/gtest.h>

namespace ridge {
namespace {

const ProductSize product{256, 128, 256};
constexpr Dataflow os = Dataflow::output_stationary, ws = Dataflow::weight_stationary, is = Dataflow::input_stationary;

TEST(Scratchpad, StallsAreThoseOfScaleSimsOwnGoldenReports) {
  const auto report_stalls = [](Dataflow flow) { return simulate_stalls({32, 32, flow}, product, {}).value(); };
  EXPECT_EQ(report_stalls(os), (StallReport{52447, 42272, 59000, 524320, 32770, 32768}));
  EXPECT_EQ(report_stalls(ws), (StallReport{52447, 41248, 59002, 524320, 32770, 262175}));
  EXPECT_EQ(report_stalls(is), (StallReport{19984, 5777, 29815, 131080, 32770, 262157}));
  EXPECT_EQ(report_stalls(is).to_text(),
            "  stalls       5777 of 19984 cycles (29815 with the first fetch and the last write)\n"
            "  memory words a 131080 b 32770 c 262157\n");
}

TEST(Scratchpad, OperandsThatFitNeverStallOnReads) {
  const Scratchpads large{.a = {1 << 20, 10}, .b = {1 << 20, 10}, .c = {1 << 22, 10}};
  for (const Dataflow flow : {os, ws, is}) {
    const StallReport report = simulate_stalls({32, 32, flow}, product, large).value();
    EXPECT_EQ(report.stall_cycles, 0);
    EXPECT_EQ(report.cycles, simulate_systolic({32, 32, flow}, product)->cycles);
  }
}

TEST(Scratchpad, AWaitCountedOnceCostsAtMostWhatScaleSimCharges) {
  for (const Dataflow flow : {os, ws}) {
    const StallReport twice = simulate_stalls({32, 32, flow}, product, {}).value();
    const StallReport once = simulate_stalls({32, 32, flow}, product, {{}, {}, {}, false}).value();
    EXPECT_LT(once.stall_cycles, twice.stall_cycles);
    EXPECT_GT(once.stall_cycles, 0);
    // The words divided by the bandwidth are a lower bound of the cycles if each wait is charged once.
    EXPECT_GE(once.cycles_with_prefetch, once.memory_reads_a / 10);
  }
}

TEST(Scratchpad, MoreBandwidthNeverStallsMoreWhenWaitsCountOnce) {
  std::int64_t last = std::numeric_limits<std::int64_t>::max();
  for (const std::int64_t bandwidth : {1, 2, 5, 10, 20, 50, 100, 1000}) {
    const Scratchpad pad{4096, bandwidth};
    const StallReport report = simulate_stalls({8, 8, ws}, {64, 64, 64}, {pad, pad, pad, false}).value();
    EXPECT_LE(report.stall_cycles, last);
    last = report.stall_cycles;
  }
}

TEST(Scratchpad, TinyScratchpadsStillEnd) {
  for (const Dataflow flow : {os, ws, is})
    for (const std::int64_t words : {2, 3, 5, 99, 101})
      for (const std::int64_t bandwidth : {1, 3, 200}) {
        const Scratchpad pad{words, bandwidth};
        const Result<StallReport> report = simulate_stalls({3, 5, flow}, {7, 11, 13}, {pad, pad, pad});
        EXPECT_GE(report.value().cycles, 0);
      }
}

TEST(Scratchpad, OverlappingWindowsArePrefetchedRepeatedly) {
  const Convolution v{13, 13, 3, 3, 16, 32, 1};
  const ProductSize size = to_product_size(v).value();
  EXPECT_EQ(size, (ProductSize{121, 32, 144}));
  const Scratchpads pads{.a = {1024, 10}, .b = {1 << 20, 10}, .c = {1 << 20, 10}};
  const StallReport windows = simulate_stalls({16, 16, os}, size, pads, v).value();
  const StallReport plain = simulate_stalls({16, 16, os}, size, pads).value();
  EXPECT_EQ(windows.memory_reads_a, plain.memory_reads_a);
  EXPECT_NE(windows.stall_cycles, plain.stall_cycles);  // a copy that is present is a hit, so waits differ
}

TEST(Scratchpad, RejectsInvalidScratchpads) {
  const auto message = [](SystolicArray array, ProductSize p, Scratchpads pads, std::optional<Convolution> v = {}) {
    return simulate_stalls(array, p, pads, v).error().message;
  };
  EXPECT_EQ(message({4, 4, ws, true}, {4, 4, 4}, {}),
            "expected an array that loads its stationary operand, found preload");
  EXPECT_EQ(message({4, 4, ws}, {4, 4, 4}, {{}, {1, 10}, {}}),
            "expected a scratchpad of at least 2 words for b, found 1");
  EXPECT_EQ(message({4, 4, ws}, {4, 4, 4}, {{}, {}, {10, 0}}),
            "expected a bandwidth of at least 1 word a cycle for c, found 0");
  EXPECT_EQ(message({4, 4, ws}, {1 << 20, 1 << 20, 16}, {}),
            "expected at most 17179869184 words to simulate, found 1099522113536 cycles of 12 on 16777216 and 16777216 "
            "addresses");
  EXPECT_EQ(message({4, 4, ws}, {4, 4, 4}, {}, Convolution{13, 13, 3, 3, 16, 32, 1}),
            "expected the product of one image, M 121 N 32 K 144, found M 4 N 4 K 4 of batch 1");
  EXPECT_EQ(message({4, 4, ws}, {4, 4, 4}, {}, Convolution{3, 13, 5, 3, 16, 32, 1}),
            "expected a filter no larger than the image of 3×13, found 5×3");
}

TEST(ConvolutionAsProduct, RoundsWindowsUpAsScaleSimDoes) {
  EXPECT_EQ(to_product_size({224, 224, 11, 11, 3, 96, 4, 4}).value(), (ProductSize{3025, 96, 363}));
  EXPECT_EQ(to_product_size({112, 112, 3, 3, 64, 1, 2, 2}).value(),
            (ProductSize{3136, 1, 576}));  // 55.5 windows count as 56
  EXPECT_EQ(to_product_size({56, 56, 1, 1, 64, 128, 2, 2, 4}).value(),
            (ProductSize{4 * 841, 128, 64}));  // 28 windows start inside, 29 are counted
  EXPECT_EQ(to_product_size({1, 1, 1, 1, 1, 0}).error().message,
            "expected the filter count between 1 and 2147483647, found 0");
  const std::int64_t side = (std::int64_t{1} << 31) - 1;
  EXPECT_EQ(to_product_size({side, side, 1, 1, 1, 1, 1, 1, 4}).error().message,
            "the sizes of the convolution's product exceed 64 bits");
}

}  // namespace
}  // namespace ridge
