// Reductions against sums in f64, over every small mix of kept and reduced axes, and where a NaN or nothing is among
// what is reduced.
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

ReduceProblem rows(ReduceFunction function, std::int64_t rows, std::int64_t columns) {
  return {.function = function, .kept = {{rows, columns, 1}}, .reduced = {{columns, 1, 0}}};
}

TEST(Reduce, SumsWhatIntegersSayToTheLastBit) {
  for (const bool along_rows : {true, false})
    for (const std::int64_t m : {1, 2, 31, 32, 33, 100})
      for (const std::int64_t n : {1, 3, 64, 1000})
        for (const int threads : {1, 3}) {
          std::vector<float> x(static_cast<std::size_t>(m * n)),
              y(static_cast<std::size_t>(along_rows ? m : n) + 1, -7);
          for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 19) - 9;
          const ReduceProblem problem =
              along_rows ? rows(ReduceFunction::sum, m, n) : ReduceProblem{.kept = {{n, 1, 1}}, .reduced = {{m, n, 0}}};
          ASSERT_EQ(refuse(problem), std::nullopt);
          reduce(problem, x.data(), y.data(), threads);
          for (std::int64_t i = 0; i < (along_rows ? m : n); ++i) {
            double sum = 0;
            for (std::int64_t j = 0; j < (along_rows ? n : m); ++j)
              sum += x[static_cast<std::size_t>(along_rows ? i * n + j : j * n + i)];
            EXPECT_EQ(y[static_cast<std::size_t>(i)], sum) << m << ' ' << n << ' ' << i;
          }
          EXPECT_EQ(y.back(), -7);
        }
}

TEST(Reduce, FindsTheLargestAndTheLeast) {
  std::vector<float> x{3, -infinity, 5, 2, NAN, infinity, -1, -2, -3}, y(3);
  reduce(rows(ReduceFunction::max, 3, 3), x.data(), y.data());
  EXPECT_EQ(y[0], 5);
  EXPECT_TRUE(std::isnan(y[1]));
  EXPECT_EQ(y[2], -1);
  reduce(rows(ReduceFunction::min, 3, 3), x.data(), y.data());
  EXPECT_EQ(y[0], -infinity);
  EXPECT_TRUE(std::isnan(y[1]));
  EXPECT_EQ(y[2], -3);
}

TEST(Reduce, ReadsAndWritesEveryDtype) {
  std::vector<Bf16> x(40, to_bf16(1.5f));
  std::vector<F16> y(2);
  ReduceProblem problem = rows(ReduceFunction::mean, 2, 20);
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

TEST(Reduce, RefusesWhatItCannotDo) {
  ReduceProblem problem = rows(ReduceFunction::sum, 2, 3);
  problem.y = DType::f64;
  EXPECT_EQ(refuse(problem), "y is f64; reductions store f32, bf16 and f16");
  problem = rows(ReduceFunction::sum, 0, 3);
  EXPECT_EQ(refuse(problem), "expected extents of at least 1, found 0");
  problem = rows(ReduceFunction::sum, std::int64_t{1} << 40, std::int64_t{1} << 40);
  EXPECT_EQ(refuse(problem), "the reduction has more than 2^59 elements");
}

}  // namespace
}  // namespace ridge::ops
