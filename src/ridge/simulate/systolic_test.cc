#include "ridge/simulate/systolic.h"

#include <gtest/gtest.h>

#include <random>

#include "ridge/simulate/systolic_elements.h"
#include "ridge/simulate/systolic_run.h"

namespace ridge {
namespace {

constexpr Dataflow flows[] = {Dataflow::output_stationary, Dataflow::weight_stationary, Dataflow::input_stationary};

SystolicReport report(SystolicArray array, ProductSize product) { return simulate_systolic(array, product).value(); }

TEST(Systolic, CountsTheCyclesOfScaleSimsOwnGoldenReports) {
  const ProductSize product{256, 128, 256};
  EXPECT_EQ(report({32, 32, Dataflow::output_stationary}, product).cycles, 10175);
  EXPECT_EQ(report({32, 32, Dataflow::weight_stationary}, product).cycles, 11199);
  EXPECT_EQ(report({32, 32, Dataflow::input_stationary}, product).cycles, 14207);
  EXPECT_EQ(report({32, 32, Dataflow::output_stationary}, product).folds, 32);
  EXPECT_EQ(report({32, 32, Dataflow::input_stationary}, product).folds, 64);
  // AlexNet's first convolution, as a product.
  const SystolicReport alexnet = report({32, 32, Dataflow::weight_stationary}, {3025, 96, 363});
  EXPECT_EQ(alexnet.folds, 36);
  EXPECT_EQ(alexnet.cycles, 112283);
}

TEST(Systolic, CountsTheWordsOfScaleSimsOwnGoldenReports) {
  const ProductSize product{256, 128, 256};
  EXPECT_EQ(report({32, 32, Dataflow::output_stationary}, product).sram_words,
            (SramWords{262144, 262144, 34816, 32 * 64}));
  EXPECT_EQ(report({32, 32, Dataflow::weight_stationary}, product).sram_words, (SramWords{262144, 32768, 262144, 0}));
  EXPECT_EQ(report({32, 32, Dataflow::input_stationary}, product).sram_words, (SramWords{65536, 262144, 262144, 0}));
}

TEST(FoldSimulation, DrawsTheFirstFoldsInOneLane) {
  const FoldSimulation clock = *simulate_folds({4, 4, Dataflow::weight_stationary}, {16, 8, 4});
  EXPECT_EQ(clock.timeline.lanes, std::vector<std::string>{"array"});
  EXPECT_EQ(clock.timeline.events.size(), 4 * 2);
  EXPECT_EQ(first_folds_timeline({4, 4, Dataflow::weight_stationary}, {16, 8, 4}, 1).events.size(), 4);
  const FoldSimulation many = *simulate_folds({1, 1, Dataflow::weight_stationary}, {2, 200, 200});
  EXPECT_EQ(many.folds, 200 * 200);
  EXPECT_LE(many.timeline.events.size(), static_cast<std::size_t>(FoldSimulation::max_events));
  EXPECT_GT(many.timeline.events.size(), static_cast<std::size_t>(FoldSimulation::max_events / 4));
  EXPECT_FALSE(simulate_folds({0, 4, Dataflow::weight_stationary}, {16, 8, 4}).ok());
}

TEST(Systolic, PreloadedFourByFourUsesBOverBPlusSix) {
  for (const std::int64_t b : {1, 2, 64, 1000}) {
    const SystolicReport preloaded = report({4, 4, Dataflow::weight_stationary, true}, {b, 4, 4});
    EXPECT_EQ(preloaded.cycles, b + 6);
    EXPECT_DOUBLE_EQ(*preloaded.utilization, static_cast<double>(b) / static_cast<double>(b + 6));
    // In SCALE-Sim the weights take four cycles, and it reports the index of the last cycle, one less than the count.
    EXPECT_DOUBLE_EQ(*report({4, 4, Dataflow::weight_stationary}, {b, 4, 4}).utilization,
                     static_cast<double>(b) / static_cast<double>(b + 9));
  }
}

TEST(Systolic, UtilizationIsUndefinedForZeroCyclesAndCanExceedOne) {
  const SystolicReport none = report({1, 1, Dataflow::output_stationary}, {1, 1, 1});
  EXPECT_EQ(none.cycles, 0);
  EXPECT_FALSE(none.utilization.has_value());
  EXPECT_DOUBLE_EQ(*report({1, 1, Dataflow::output_stationary}, {1, 1, 2}).utilization, 2.0);
  EXPECT_DOUBLE_EQ(*report({1, 1, Dataflow::output_stationary, true}, {1, 1, 2}).utilization, 1.0);
}

TEST(Systolic, FormatsText) {
  EXPECT_EQ(report({4, 4, Dataflow::weight_stationary, true}, {1, 4, 4}).to_text(),
            "M 1 N 4 K 4 on 4×4 elements, weight-stationary, preloaded\n"
            "  cycles       7 = 1 fold · 7\n"
            "  utilization  14.29 % (tiles fill 100.00 % of the elements)\n"
            "  sram words   a 4 b 16 c 4\n");
  EXPECT_EQ(report({1, 1, Dataflow::output_stationary}, {1, 1, 1}).to_text(),
            "M 1 N 1 K 1 on 1×1 elements, output-stationary\n"
            "  cycles       0 = 1 fold · 1 − 1\n"
            "  utilization  undefined: no cycle is counted\n"
            "  sram words   a 1 b 1 c 3 (SCALE-Sim's count; 2 of c are never written)\n");
}

TEST(Systolic, RejectsInvalidSizes) {
  const auto message = [](SystolicArray array, ProductSize product) {
    return simulate_systolic(array, product).error().message;
  };
  const Dataflow ws = Dataflow::weight_stationary;
  EXPECT_EQ(message({0, 4, ws}, {1, 1, 1}), "expected an array with rows of at least 1, found 0");
  EXPECT_EQ(message({4, -1, ws}, {1, 1, 1}), "expected an array with columns of at least 1, found -1");
  EXPECT_EQ(message({65537, 4, ws}, {1, 1, 1}), "expected an array with at most 65536 rows, found 65537");
  EXPECT_EQ(message({4, 4, ws}, {0, 1, 1}), "expected a product with M of at least 1, found 0");
  EXPECT_EQ(message({4, 4, ws}, {1, 0, 1}), "expected a product with N of at least 1, found 0");
  EXPECT_EQ(message({4, 4, ws}, {1, 1, -3}), "expected a product with K of at least 1, found -3");
  const std::int64_t huge = std::int64_t{1} << 40;
  EXPECT_EQ(message({4, 4, ws}, {huge, huge, 1}),
            "the counts of M 1099511627776 N 1099511627776 K 1 on 4×4 elements exceed 64 bits");
  constexpr std::int64_t largest = std::numeric_limits<std::int64_t>::max();
  for (const Dataflow flow : flows)
    for (const ProductSize p : {ProductSize{largest, 1, 1}, {1, largest, 1}, {1, 1, largest}})
      EXPECT_FALSE(simulate_systolic({65536, 65536, flow}, p).ok());
  EXPECT_EQ(parse_dataflow("rs").error().to_string(),
            "expected a dataflow os, ws or is, found 'rs'\n"
            "  hint: os keeps the result in place, ws the weights, is the inputs\n");
  EXPECT_EQ(parse_dataflow("input-stationary").value(), Dataflow::input_stationary);
}

std::vector<float> small_integers(std::mt19937& random, std::int64_t count) {
  std::vector<float> numbers(count);
  for (float& x : numbers) x = static_cast<float>(static_cast<int>(random() % 15) - 7);
  return numbers;
}

std::vector<float> product_of(const ProductSize& p, const std::vector<float>& a, const std::vector<float>& b) {
  std::vector<float> c(p.m * p.n);
  for (std::int64_t m = 0; m < p.m; ++m)
    for (std::int64_t n = 0; n < p.n; ++n)
      for (std::int64_t k = 0; k < p.k; ++k) c[m * p.n + n] += a[m * p.k + k] * b[k * p.n + n];
  return c;
}

TEST(Systolic, ClosedFormFoldsAndElementsAgreeOnThousandsOfRandomCases) {
  std::mt19937 random(7);
  const auto random_up_to = [&](int n) { return static_cast<std::int64_t>(1 + random() % static_cast<unsigned>(n)); };
  for (int i = 0; i < 4000; ++i) {
    const SystolicArray array{random_up_to(9), random_up_to(9), flows[i % 3], random() % 2 == 0};
    const ProductSize product{random_up_to(20), random_up_to(20), random_up_to(20)};
    SCOPED_TRACE(simulate_systolic(array, product).value().to_text());
    const SystolicReport closed = report(array, product);
    const FoldSimulation clock = simulate_folds(array, product).value();
    const std::vector<float> a = small_integers(random, product.m * product.k),
                             b = small_integers(random, product.k * product.n);
    const ElementRun run = simulate_elements(array, product, a, b).value();
    ASSERT_EQ(clock.folds, closed.folds);
    ASSERT_EQ(clock.cycles, closed.cycles);
    ASSERT_EQ(clock.sram_words, closed.sram_words);
    ASSERT_EQ(clock.multiply_adds, product.m * product.n * product.k);
    ASSERT_EQ(run.cycles, closed.cycles);
    ASSERT_EQ(run.multiply_adds, clock.multiply_adds);
    ASSERT_EQ(run.element_steps, array.rows * array.cols * closed.folds * closed.fold_cycles);
    ASSERT_EQ(run.sram_words.a, closed.sram_words.a);
    ASSERT_EQ(run.sram_words.b, closed.sram_words.b);
    ASSERT_EQ(run.sram_words.c, closed.sram_words.c - closed.sram_words.c_overcount);
    ASSERT_EQ(run.c, product_of(product, a, b));
  }
}

TEST(Systolic, LargerArraysMultiplyCorrectly) {
  std::mt19937 random(11);
  for (const Dataflow flow : flows) {
    const ProductSize product{130, 67, 200};
    const std::vector<float> a = small_integers(random, product.m * product.k),
                             b = small_integers(random, product.k * product.n);
    EXPECT_EQ(simulate_elements({64, 48, flow}, product, a, b).value().c, product_of(product, a, b));
  }
}

TEST(Systolic, FramesShowTheTwoByTwoExampleOfTheHeader) {
  const std::vector<float> a{5, 6}, b{1, 2, 3, 4};
  const ElementRun run =
      simulate_elements({2, 2, Dataflow::weight_stationary, true}, {1, 2, 2}, a, b, {.frames = true}).value();
  EXPECT_EQ(run.c, (std::vector<float>{23, 34}));
  ASSERT_EQ(run.frames.size(), 3U);
  EXPECT_EQ(run.frames[0].left, (std::vector<float>{5, 0, 0, 0}));
  EXPECT_EQ(run.frames[1].left, (std::vector<float>{0, 5, 6, 0}));
  EXPECT_EQ(run.frames[1].down[2], 23);
  EXPECT_EQ(run.frames[2].down[3], 34);
}

TEST(Systolic, ElementsRejectWrongOperandsAndLongRuns) {
  const SystolicArray array{4, 4, Dataflow::weight_stationary};
  const std::vector<float> six(6), eight(8);
  EXPECT_EQ(simulate_elements(array, {2, 4, 3}, eight, eight).error().message,
            "expected 6 numbers of A [2, 3], found 8");
  EXPECT_EQ(simulate_elements(array, {2, 4, 3}, six, eight).error().message,
            "expected 12 numbers of B [3, 4], found 8");
  const std::vector<float> one(1), tall(1 << 15);
  EXPECT_EQ(simulate_elements({1, 1, Dataflow::output_stationary}, {1 << 15, 1 << 15, 1}, tall, tall).error().message,
            "expected at most 268435456 results to step, found 32768·32768");
  const std::vector<float> long_a(1 << 16);
  EXPECT_EQ(simulate_elements({65536, 65536, Dataflow::weight_stationary}, {1, 1, 1}, one, one).error().message,
            "expected an array of at most 16777216 elements to step, found 4294967296");
  EXPECT_EQ(simulate_elements({4096, 4096, Dataflow::weight_stationary}, {1 << 16, 1, 1}, long_a, one).error().message,
            "expected at most 1099511627776 element-steps, found 77822 cycles of 16777216 elements");
  EXPECT_EQ(simulate_elements({8, 8, Dataflow::weight_stationary}, {1 << 16, 1, 1}, long_a, one, {.frames = true})
                .error()
                .message,
            "expected frames of at most 4194304 numbers, found 65558 cycles of 3·64");
}

TEST(Folds, TimelineShowsLoadFillComputeAndDrain) {
  const FoldSimulation clock = simulate_folds({4, 4, Dataflow::weight_stationary}, {16, 4, 8}).value();
  const std::vector<Event> expected{{0, Phase::load, 0, 4, 0},      {0, Phase::fill, 4, 10, 0},
                                    {0, Phase::compute, 10, 20, 0}, {0, Phase::drain, 20, 26, 0},
                                    {0, Phase::load, 26, 30, 1},    {0, Phase::fill, 30, 36, 1},
                                    {0, Phase::compute, 36, 46, 1}, {0, Phase::drain, 46, 52, 1}};
  EXPECT_EQ(clock.timeline.events, expected);
  EXPECT_EQ(clock.cycles, 51);
  EXPECT_EQ(clock.load_cycles + clock.fill_cycles + clock.compute_cycles + clock.drain_cycles, 52);
}

TEST(Folds, RejectsTooManyFolds) {
  EXPECT_EQ(simulate_folds({1, 1, Dataflow::output_stationary}, {1 << 16, 1 << 16, 1}).error().to_string(),
            "expected at most 1000000000 folds to clock, found 4294967296\n"
            "  hint: the closed form has no limit on folds\n");
}

}  // namespace
}  // namespace ridge
