// Tests sums across rows against plain loops, and gradients of norms' weights against the norms in f64. tests/rows
// compares the CPU kernels with these kernels in f64.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "ridge/ops/rows/cpu.h"
#include "ridge/ops/rows/row_kernels.h"
#include "ridge/pool/testing/isa_fixture.h"

namespace ridge::ops {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr RowFunction gradients[] = {RowFunction::product_sum_across_rows, RowFunction::rmsnorm_weight_gradient,
                                     RowFunction::layernorm_weight_gradient};

float random_float(std::mt19937& random) { return static_cast<float>(random() % 2001) / 500 - 2; }

template <class Kind>
std::vector<double> evaluate_reference(const std::vector<double>& x, tile::Index rows, tile::Index columns) {
  std::vector<double> y(columns, 77);
  tile::value::run_rows<ColumnReductionKernel<double, double, Kind>>({{x.data(), columns}, {y.data()}}, rows, columns);
  return y;
}

TEST(Across, ReferenceReducesEachColumn) {
  const std::vector<double> x{1, -2, 3, 4, 5, -6};
  EXPECT_EQ(evaluate_reference<tile::Add>(x, 2, 3), (std::vector<double>{5, 3, -3}));
  EXPECT_EQ(evaluate_reference<tile::MaxOrNan>(x, 3, 2), (std::vector<double>{5, 4}));
  EXPECT_EQ(evaluate_reference<tile::MinOrNan>(x, 3, 2), (std::vector<double>{1, -6}));
}

// A row contributes dy times its normalized x to the gradient.
TEST(Across, WeightGradientIsDyTimesNormalizedX) {
  std::mt19937 random(3);
  for (const std::size_t columns : {1u, 2u, 7u, 32u}) {
    RowInputs row;
    for (std::size_t i = 0; i < columns; ++i) {
      row.x.push_back(random_float(random));
      row.dy.push_back(random_float(random));
      row.weight.push_back(1);
    }
    for (const RowFunction function : gradients) {
      RowProblem p;
      p.function = function;
      const std::vector<double> got = evaluate_in_f64(p, row);
      p.function = function == RowFunction::rmsnorm_weight_gradient ? RowFunction::rmsnorm : RowFunction::layernorm;
      const std::vector<double> norm =
          function == RowFunction::product_sum_across_rows ? row.x : evaluate_in_f64(p, row);
      for (std::size_t i = 0; i < columns; ++i) EXPECT_NEAR(got[i], row.dy[i] * norm[i], 1e-12);
    }
  }
}

struct Case {
  std::int64_t rows = 1, columns = 1;
  int threads = 1;
};

class AcrossRows : public pool::IsaTest {};

// Returns the result of `function` on f32 rows and checks that nothing is written after it.
std::vector<float> run_on_cpu(RowFunction function, const Case& c, const std::vector<float>& x,
                              const std::vector<float>& dy) {
  RowProblem p;
  p.function = function;
  p.rows = c.rows;
  p.columns = c.columns;
  p.x = p.dy = {DType::f32, c.columns};
  EXPECT_FALSE(unsupported_reason(p));
  std::vector<float> y(static_cast<std::size_t>(c.columns) + 1, 77);
  run_row_function(p, {x.data(), nullptr, y.data(), dy.data()}, c.threads);
  EXPECT_EQ(y.back(), 77);
  return y;
}

TEST_P(AcrossRows, ThreadCountDoesNotChangeBits) {
  std::mt19937 random(2);
  for (const Case& c : {Case{.rows = 1000, .columns = 333}, Case{.rows = 100, .columns = 5000}}) {
    std::vector<float> x, dy;
    for (std::int64_t i = 0; i < c.rows * c.columns; ++i) {
      x.push_back(random_float(random));
      dy.push_back(random_float(random));
    }
    for (const RowFunction function : gradients) {
      Case many = c;
      many.threads = 5;
      EXPECT_EQ(run_on_cpu(function, c, x, dy), run_on_cpu(function, many, x, dy));
    }
  }
}

TEST_P(AcrossRows, NanReachesDependentColumns) {
  std::vector<float> x(64 * 40, 0.5F), dy(64 * 40, 2);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] += static_cast<float>(i % 5);
  x[10 * 40 + 7] = NAN;
  const Case c{.rows = 64, .columns = 40};
  const std::vector<float> product = run_on_cpu(RowFunction::product_sum_across_rows, c, x, dy),
                           norm = run_on_cpu(RowFunction::rmsnorm_weight_gradient, c, x, dy);
  for (std::size_t i = 0; i < 40; ++i) {
    EXPECT_EQ(std::isnan(product[i]), i == 7) << i;
    EXPECT_TRUE(std::isnan(norm[i])) << i;
  }
}

ReduceProblem column_reduction(ReduceFunction function, std::int64_t rows, std::int64_t columns, std::int64_t stride) {
  return {.function = function, .kept = {{columns, 1, 1}}, .reduced = {{rows, stride, 0}}};
}

TEST_P(AcrossRows, ReductionsOfIntegersAreExact) {
  for (const std::int64_t m : {1, 2, 15, 16, 17, 100, 5000})
    for (const std::int64_t n : {31, 32, 33, 64, 127, 2049})
      for (const int threads : {1, 3}) {
        const std::int64_t stride = n + m % 3;
        std::vector<float> x(m * stride), y(static_cast<std::size_t>(n) + 1);
        for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i * 7 % 23) - 11;
        for (const ReduceFunction function : {ReduceFunction::sum, ReduceFunction::max, ReduceFunction::min}) {
          std::fill(y.begin(), y.end(), 77.0F);
          reduce(column_reduction(function, m, n, stride), x.data(), y.data(), threads);
          for (std::int64_t c = 0; c < n; ++c) {
            float want = x[c];
            for (std::int64_t r = 1; r < m; ++r) {
              const float each = x[r * stride + c];
              if (function == ReduceFunction::sum) want += each;
              if (function == ReduceFunction::max) want = std::max(want, each);
              if (function == ReduceFunction::min) want = std::min(want, each);
            }
            ASSERT_EQ(y[c], want) << m << " x " << n << ", column " << c;
          }
          ASSERT_EQ(y.back(), 77);
        }
      }
}

// The reduced axis is between kept axes; sums of some columns overflow f32 or contain a NaN.
TEST_P(AcrossRows, ReducesTheMiddleOfThreeAxes) {
  std::vector<float> x(3 * 20 * 40), y(3 * 40);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 19);
  for (std::size_t r = 0; r < 20; ++r) x[800 + r * 40 + 5] = r % 2 == 0 ? 3e38F : -3e38F;
  for (std::size_t r = 0; r < 20; ++r) x[r * 40 + 6] = 1e38F;
  x[1600 + 7] = NAN;
  x[1600 + 8] = infinity;
  const ReduceProblem p{.function = ReduceFunction::mean, .kept = {{3, 800, 1}, {40, 1, 3}}, .reduced = {{20, 40, 0}}};
  reduce(p, x.data(), y.data(), 2);
  for (std::size_t a = 0; a < 3; ++a)
    for (std::size_t c = 0; c < 40; ++c) {
      const float got = y[a + 3 * c];
      double sum = 0;
      for (std::size_t r = 0; r < 20; ++r) sum += x[a * 800 + r * 40 + c];
      if (a == 2 && c == 7)
        EXPECT_TRUE(std::isnan(got));
      else
        EXPECT_EQ(got, static_cast<float>(sum / 20)) << a << ' ' << c;
    }
}

INSTANTIATE_TEST_SUITE_P(EveryIsa, AcrossRows, testing::ValuesIn(pool::available_isas()),
                         [](const auto& isa) { return std::string(pool::isa_name(isa.param)); });

TEST(Across, SumOverNoRowsIsZero) {
  const Case c{.rows = 0, .columns = 3};
  EXPECT_EQ(run_on_cpu(RowFunction::product_sum_across_rows, c, {}, {}), (std::vector<float>{0, 0, 0, 77}));
}

}  // namespace
}  // namespace ridge::ops
