#include "ridge/ops/library/formula.h"

#include <gtest/gtest.h>

#include <vector>

namespace ridge::ops {
namespace {

constexpr LibraryDevice chip{.rates = {.flops_per_s = 1e15, .memory_bytes_per_s = 4e12, .cores = 132},
                             .cache_bytes = 5e7};

double initial_estimate(const LibraryFormula& form, const std::vector<double>& sizes) {
  std::vector<double> numbers;
  for (const LibraryParameter& x : form.numbers) numbers.push_back(x.initial_value);
  return form.estimate_seconds(sizes, chip, numbers);
}

TEST(LibraryFormulas, HaveAtMostTenParametersAndValidColumns) {
  for (const LibraryFormula* form : library_formulas()) {
    EXPECT_LE(form->numbers.size(), 10u) << form->name;
    EXPECT_LE(form->required_columns, form->columns.size()) << form->name;
    for (const std::size_t i : form->group_columns) EXPECT_LT(i, form->columns.size()) << form->name;
  }
}

TEST(LibraryFormulas, LongPrefillIsComputeBound) {
  const std::vector<double> sizes{8, 64, 64, 16384, 128};
  const double multiplies = 2.0 * 8 * 64 * 16384 * 16384 * 128 / 1e15;
  EXPECT_DOUBLE_EQ(prefill_formula().roofline_seconds(sizes, chip), multiplies);
  const double steps = 8.0 * 64 * 16384 / 128 * 16384 / 128 / 2, exponentials = steps * 4e-7 / 132;
  EXPECT_NEAR(initial_estimate(prefill_formula(), sizes), multiplies / 0.8 + exponentials, 0.15 * multiplies);
  EXPECT_NEAR(initial_estimate(prefill_formula(), {8, 64, 64, 32768, 128}) / initial_estimate(prefill_formula(), sizes),
              4, 0.15);
}

// With one query per head, eight heads that share keys fill one tile; otherwise each head has a nearly empty tile.
TEST(LibraryFormulas, HeadsThatShareKeysShareATile) {
  const double shared = initial_estimate(prefill_formula(), {256, 64, 8, 1, 128}),
               apart = initial_estimate(prefill_formula(), {256, 64, 64, 1, 128});
  EXPECT_LT(4 * (shared - 9e-6), apart - 9e-6);
  const double few = initial_estimate(decode_formula(), {64, 8, 8, 8192, 128}),
               many = initial_estimate(decode_formula(), {64, 64, 8, 8192, 128});
  EXPECT_LT(many, 1.2 * few);
}

TEST(LibraryFormulas, LongDecodeIsMemoryBound) {
  const std::vector<double> sizes{64, 8, 8, 65536, 64};
  const double bytes = 4.0 * 64 * 64 * (65536.0 * 8 + 8);
  EXPECT_DOUBLE_EQ(decode_formula().roofline_seconds(sizes, chip), bytes / 4e12);
  EXPECT_GT(initial_estimate(decode_formula(), sizes), bytes / (0.95 * 4e12));
  EXPECT_LT(initial_estimate(decode_formula(), sizes), 2 * bytes / (0.95 * 4e12));
}

TEST(LibraryFormulas, StreamedKernelsReachMemoryOrCacheBandwidth) {
  EXPECT_NEAR(initial_estimate(streamed_formula(), {1000, 1e8}), 2.5e-6 + 1e11 / (0.85 * 4e12), 1e-6);
  EXPECT_NEAR(initial_estimate(streamed_formula(), {100, 1e4}), 2.5e-6 + 1e6 / (1.3 * 4e12), 1e-9);
}

TEST(LibraryFormulas, CpuKernelsReachTheMachinesRates) {
  EXPECT_NEAR(initial_estimate(cpu_formula(), {1, 1e-12, 1e-3, 1e9, 1e6, 1e6, 1e6}), 1 / 0.9, 1e-3);
  EXPECT_NEAR(initial_estimate(cpu_formula(), {1e-12, 1e-12, 1, 1e12, 1, 1, 1}), 1 / 0.9, 1e-3);
  const double one_row = initial_estimate(cpu_formula(), {1, 1e-12, 1e-3, 1e9, 1, 1e6, 1e6});
  EXPECT_NEAR(one_row, 3 / 0.9, 1e-2);  // One row reaches a third of the rate if two rows reach half of it
}

TEST(LibraryFormulas, BatchedProductTimeScalesWithBatch) {
  const LibraryFormula& form = product_formula();
  const std::vector<double> numbers{2.5e-6, 0.85, 0.9, 1e-7, 1e-6, 3e-6, 3, 0.05, 1.6e13, 1.5};
  const double one = form.estimate_seconds(std::vector<double>{4096, 4096, 4096, 1}, chip, numbers);
  const double four = form.estimate_seconds(std::vector<double>{4096, 4096, 4096, 4}, chip, numbers);
  EXPECT_NEAR((four - 2.5e-6) / (one - 2.5e-6), 4, 0.3);
  LibraryDevice wide = chip;
  wide.element_bytes = 4;  // f32 results are stored in f32
  EXPECT_DOUBLE_EQ(form.roofline_seconds(std::vector<double>{1, 4096, 4096, 1}, wide),
                   4.0 * (4096.0 * 4097 + 4096) / 4e12);
}

}  // namespace
}  // namespace ridge::ops
