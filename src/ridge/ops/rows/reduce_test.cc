// Tests reductions against sums in f64, for all small combinations of kept and reduced axes, with NaNs and with empty
// reductions.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "ridge/base/float16.h"
#include "ridge/ops/rows/cpu.h"

namespace ridge::ops {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

ReduceProblem row_reduction(ReduceFunction function, std::int64_t rows, std::int64_t columns) {
  return {.function = function, .kept = {{rows, columns, 1}}, .reduced = {{columns, 1, 0}}};
}

TEST(Reduce, SumsOfIntegersAreExact) {
  for (const bool along_rows : {true, false})
    for (const std::int64_t m : {1, 2, 31, 32, 33, 100})
      for (const std::int64_t n : {1, 3, 64, 1000})
        for (const int threads : {1, 3}) {
          std::vector<float> x(m * n), y(static_cast<std::size_t>(along_rows ? m : n) + 1, -7);
          for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 19) - 9;
          const ReduceProblem problem = along_rows ? row_reduction(ReduceFunction::sum, m, n)
                                                   : ReduceProblem{.kept = {{n, 1, 1}}, .reduced = {{m, n, 0}}};
          ASSERT_FALSE(unsupported_reason(problem));
          reduce(problem, x.data(), y.data(), threads);
          for (std::int64_t i = 0; i < (along_rows ? m : n); ++i) {
            double sum = 0;
            for (std::int64_t j = 0; j < (along_rows ? n : m); ++j) sum += x[along_rows ? i * n + j : j * n + i];
            EXPECT_EQ(y[i], sum) << m << ' ' << n << ' ' << i;
          }
          EXPECT_EQ(y.back(), -7);
        }
}

// Row lengths around vector multiples and around the block that is added in f32; rows are independent.
TEST(Reduce, MeansOfLongRowsAreAccurate) {
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const std::int64_t n : {1, 7, 23, 24, 25, 63, 64, 65, 1000, 2047, 2048, 2049, 100003}) {
      std::vector<float> x(3 * n), y(3);
      std::vector<Bf16> half;
      for (std::size_t i = 0; i < x.size(); ++i) {
        half.push_back(to_bf16(1.1f + static_cast<float>(i % 13)));
        x[i] = to_float(half.back());
      }
      ReduceProblem problem = row_reduction(ReduceFunction::mean, 3, n);
      problem.x = dtype;
      reduce(problem, dtype == DType::f32 ? static_cast<const void*>(x.data()) : half.data(), y.data());
      for (std::int64_t r = 0; r < 3; ++r) {
        const double mean = std::accumulate(x.begin() + r * n, x.begin() + (r + 1) * n, 0.0) / static_cast<double>(n);
        EXPECT_NEAR(y[r], mean, 3e-7 * mean) << n << ' ' << dtype_name(dtype);
      }
    }
}

TEST(Reduce, FindsExtremesAtEveryPosition) {
  for (const std::int64_t n : {1, 8, 70, 4100})
    for (const std::int64_t at : {std::int64_t{0}, n / 2, n - 1})
      for (const ReduceFunction function : {ReduceFunction::max, ReduceFunction::min}) {
        std::vector<float> x(n, 1), y(1);
        const float extreme = function == ReduceFunction::max ? 3.0f : -3.0f;
        x[at] = extreme;
        reduce(row_reduction(function, 1, n), x.data(), y.data());
        EXPECT_EQ(y[0], extreme) << n << ' ' << at;
        x[at] = NAN;
        reduce(row_reduction(function, 1, n), x.data(), y.data());
        EXPECT_TRUE(std::isnan(y[0])) << n << ' ' << at;
      }
}

// Reduced axes that merge into one contiguous axis form a row; kept points may have any layout.
TEST(Reduce, MergesContiguousReducedAxes) {
  std::vector<float> x(2 * 3 * 60), y(6);
  std::iota(x.begin(), x.end(), 0.0f);
  ReduceProblem p{
      .function = ReduceFunction::sum, .kept = {{3, 60, 2}, {2, 180, 1}}, .reduced = {{4, 15, 0}, {15, 1, 0}}};
  for (const bool swapped : {false, true}) {
    if (swapped) std::swap(p.reduced[0], p.reduced[1]);
    reduce(p, x.data(), y.data());
    for (int a = 0; a < 3; ++a)
      for (int b = 0; b < 2; ++b) EXPECT_EQ(y[a * 2 + b], 60 * (180 * b + 60 * a) + 1770);
  }
}

TEST(Reduce, MaxAndMinHandleInfinityAndNan) {
  std::vector<float> x{3, -infinity, 5, 2, NAN, infinity, -1, -2, -3}, y(3);
  reduce(row_reduction(ReduceFunction::max, 3, 3), x.data(), y.data());
  EXPECT_EQ(y[0], 5);
  EXPECT_TRUE(std::isnan(y[1]));
  EXPECT_EQ(y[2], -1);
  reduce(row_reduction(ReduceFunction::min, 3, 3), x.data(), y.data());
  EXPECT_EQ(y[0], -infinity);
  EXPECT_TRUE(std::isnan(y[1]));
  EXPECT_EQ(y[2], -3);
}

TEST(Reduce, MeanIsRightIfSumOverflowsF32) {
  std::vector<float> x(3 * 64, 1e38F), y(3);
  for (std::size_t i = 64; i < 128; ++i) x[i] = i % 2 == 0 ? 3e38F : -3e38F;
  x[150] = infinity;
  reduce(row_reduction(ReduceFunction::mean, 3, 64), x.data(), y.data());
  EXPECT_EQ(y[0], 1e38F);
  EXPECT_EQ(y[1], 0);
  EXPECT_EQ(y[2], infinity);
}

TEST(Reduce, ReadsAndWritesBf16AndF16) {
  std::vector<Bf16> x(40, to_bf16(1.5f));
  std::vector<F16> y(2);
  ReduceProblem problem = row_reduction(ReduceFunction::mean, 2, 20);
  problem.x = DType::bf16;
  problem.y = DType::f16;
  reduce(problem, x.data(), y.data());
  EXPECT_EQ(to_float(y[1]), 1.5f);
  std::swap(problem.x, problem.y);
  std::vector<F16> z(40, to_f16(-2));
  std::vector<Bf16> w(2);
  reduce(problem, z.data(), w.data());
  EXPECT_EQ(to_float(w[0]), -2);
}

TEST(Reduce, ReportsUnsupportedProblems) {
  ReduceProblem problem = row_reduction(ReduceFunction::sum, 2, 3);
  problem.y = DType::f64;
  EXPECT_EQ(unsupported_reason(problem).text(), "y is f64; reductions store f32, bf16 and f16");
  problem = row_reduction(ReduceFunction::sum, 0, 3);
  EXPECT_EQ(unsupported_reason(problem).text(), "expected extents of at least 1, found 0");
  problem = row_reduction(ReduceFunction::sum, std::int64_t{1} << 40, std::int64_t{1} << 40);
  EXPECT_EQ(unsupported_reason(problem).text(), "the reduction has more than 2^59 elements");
}

}  // namespace
}  // namespace ridge::ops
