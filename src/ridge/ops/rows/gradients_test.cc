// Gradients of functions of rows: their texts on doubles against differences of the functions' own texts, and what CPUs
// make of them against those.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "ridge/base/float16.h"
#include "ridge/ops/rows/cpu.h"
#include "ridge/pool/isa.h"

namespace ridge::ops {
namespace {

namespace cpu = tile::cpu;
using Row = std::vector<double>;

constexpr RowFunction gradients[] = {RowFunction::softmax_gradient, RowFunction::rmsnorm_gradient,
                                     RowFunction::layernorm_gradient};

RowFunction function_of(RowFunction gradient) {
  if (gradient == RowFunction::rmsnorm_gradient) return RowFunction::rmsnorm;
  return gradient == RowFunction::layernorm_gradient ? RowFunction::layernorm : RowFunction::softmax;
}

RowProblem problem_of(RowFunction function, std::int64_t rows = 1, std::int64_t columns = 1) {
  RowProblem p;
  p.function = function;
  p.rows = rows;
  p.columns = columns;
  return p;
}

double loss(RowFunction function, const RowValues& row) {  // sum of dy * y
  const Row y = in_doubles(problem_of(function), row);
  double sum = 0;
  for (std::size_t i = 0; i < y.size(); ++i)
    sum += row.dy[i] * y[i] * (function == RowFunction::softmax ? 1 : row.weight[i]);
  return sum;
}

TEST(Gradients, AreWhatDifferencesSay) {
  std::mt19937 random(5);
  std::normal_distribution<double> normal(0.3, 1);
  for (const RowFunction gradient : gradients)
    for (const std::size_t columns : {1u, 2u, 3u, 8u, 16u}) {
      RowValues row;
      for (Row* each : {&row.x, &row.dy, &row.weight})
        for (std::size_t i = 0; i < columns; ++i) each->push_back(normal(random));
      RowValues of = row;  // the softmax's gradient is told what it left, and the norms' text weighs its result itself
      if (gradient == RowFunction::softmax_gradient) of.x = in_doubles(problem_of(RowFunction::softmax), row);
      const Row dx = in_doubles(problem_of(gradient), of);
      for (std::size_t i = 0; i < columns; ++i) {
        RowValues up = row, down = row;
        for (RowValues* each : {&up, &down}) each->weight.assign(columns, 1);
        for (RowValues* each : {&up, &down})
          for (std::size_t c = 0; c < columns; ++c)
            each->dy[c] = gradient == RowFunction::softmax_gradient ? row.dy[c] : row.dy[c] * row.weight[c];
        constexpr double step = 1e-5;
        up.x[i] += step;
        down.x[i] -= step;
        const RowFunction function = function_of(gradient);
        EXPECT_NEAR(dx[i], (loss(function, up) - loss(function, down)) / (2 * step), 2e-7)
            << static_cast<int>(gradient) << ", column " << i << " of " << columns;
      }
    }
}

template <class T> T stored(double x) {
  const auto rounded = static_cast<float>(x);
  if constexpr (std::is_same_v<T, float>) return rounded;
  if constexpr (std::is_same_v<T, Bf16>) return to_bf16(rounded);
  if constexpr (std::is_same_v<T, F16>) return to_f16(rounded);
}
template <class T> double value(T x) {
  if constexpr (std::is_same_v<T, float>)
    return x;
  else
    return to_float(x);
}

struct Shape {
  std::int64_t rows = 3, columns = 1, gap = 0;
  double mean = 0, size = 1;
  bool weighted = true;
  int threads = 1;
};

// Rows of T against their text on doubles.
template <class T> void expect_right(RowFunction function, DType dtype, const Shape& s) {
  std::mt19937 random(7);
  std::normal_distribution<double> normal(0, 1);
  RowProblem p = problem_of(function, s.rows, s.columns);
  p.weight = dtype;
  p.x = {dtype, s.columns + s.gap};
  p.dy = {dtype, s.columns + 2 * s.gap};
  p.y = {dtype, s.columns + s.gap};
  ASSERT_EQ(refuse(p), std::nullopt);
  std::vector<T> x, dy, w, y(static_cast<std::size_t>(s.rows * p.y.row_stride), stored<T>(77));
  for (std::int64_t i = 0; i < s.rows * p.x.row_stride; ++i) x.push_back(stored<T>(normal(random) * s.size + s.mean));
  for (std::int64_t i = 0; i < s.rows * p.dy.row_stride; ++i) dy.push_back(stored<T>(normal(random)));
  for (std::int64_t i = 0; i < s.columns; ++i) w.push_back(stored<T>(s.weighted ? normal(random) : 1));
  rows(p, {x.data(), s.weighted ? w.data() : nullptr, y.data(), dy.data()}, s.threads);
  double unit = dtype == DType::bf16 ? 0x1p-8 : 0x1p-11;
  if (dtype == DType::f32) unit = 4e-6;
  for (std::int64_t r = 0; r < s.rows; ++r) {
    RowValues row;
    double slope = 0, length = 0;
    for (std::int64_t c = 0; c < s.columns; ++c) {
      row.x.push_back(value(x[static_cast<std::size_t>(r * p.x.row_stride + c)]));
      row.dy.push_back(value(dy[static_cast<std::size_t>(r * p.dy.row_stride + c)]));
      row.weight.push_back(value(w[static_cast<std::size_t>(c)]));
      slope = std::max(slope, std::abs(row.dy.back() * row.weight.back()));
      length += std::pow(row.x.back() - (function == RowFunction::layernorm_gradient ? s.mean : 0), 2);
    }
    // What cancels is off by what it is made of.
    const double made_of = function == RowFunction::softmax_gradient
                               ? std::sqrt(length) * slope
                               : slope / std::sqrt(length / static_cast<double>(s.columns) + p.epsilon);
    const std::vector<double> want = in_doubles(p, row);
    for (std::int64_t c = 0; c < p.y.row_stride; ++c) {
      const double got = value(y[static_cast<std::size_t>(r * p.y.row_stride + c)]);
      if (c >= s.columns) {
        ASSERT_EQ(got, value(stored<T>(77))) << "between rows";
        continue;
      }
      ASSERT_NEAR(got, want[static_cast<std::size_t>(c)],
                  unit * std::abs(want[static_cast<std::size_t>(c)]) + 4e-6 * made_of + 1e-7)
          << static_cast<int>(function) << ", " << name(dtype) << ", row " << r << ", column " << c << " of "
          << s.columns;
    }
  }
}
void expect_right(RowFunction function, const Shape& shape) {
  expect_right<float>(function, DType::f32, shape);
  expect_right<Bf16>(function, DType::bf16, shape);
  expect_right<F16>(function, DType::f16, shape);
}

class GradientRows : public testing::TestWithParam<cpu::Isa> {
 protected:
  void SetUp() override {
    before_ = cpu::isa();
    ASSERT_TRUE(cpu::use_isa(GetParam()));
  }
  void TearDown() override { cpu::use_isa(before_); }

 private:
  cpu::Isa before_ = cpu::Isa::plain;
};

TEST_P(GradientRows, AreTheirTextsOnDoubles) {
  for (const RowFunction gradient : gradients) {
    for (std::int64_t columns = 1; columns <= 150; ++columns)
      expect_right(gradient, {.columns = columns, .gap = columns % 5, .weighted = columns % 3 != 0});
    for (const std::int64_t columns : {1000, 4097, 20001})
      expect_right(gradient, {.rows = 5, .columns = columns, .threads = 3});
    expect_right(gradient, {.rows = 3000, .columns = 1056, .threads = 2});  // beyond the L2
  }
}

// Squares that overflow f32 or vanish, and a mean beside which distances are small.
TEST_P(GradientRows, AreRightWhereF32IsInDoubt) {
  for (const double size : {1e-12, 1e25})
    for (const RowFunction gradient : {RowFunction::rmsnorm_gradient, RowFunction::layernorm_gradient})
      expect_right<float>(gradient, DType::f32, {.columns = 70, .size = size});
  expect_right<float>(RowFunction::layernorm_gradient, DType::f32, {.columns = 5000, .mean = 30000});
}

TEST_P(GradientRows, KeepANanInItsRow) {
  for (const RowFunction gradient : gradients) {
    constexpr std::int64_t n = 37;
    std::vector<float> x(3 * n, 0.5F), dy(3 * n, 2), y(3 * n);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] += static_cast<float>(i % 5);
    x[n + 20] = NAN;
    RowProblem p = problem_of(gradient, 3, n);
    p.x = p.y = p.dy = {DType::f32, n};
    rows(p, {x.data(), nullptr, y.data(), dy.data()}, 1);
    for (std::size_t i = 0; i < y.size(); ++i) ASSERT_EQ(std::isnan(y[i]), i / n == 1) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(EveryIsa, GradientRows, testing::ValuesIn(cpu::available_isas()),
                         [](const auto& isa) { return std::string(cpu::name(isa.param)); });

TEST(Gradients, RefuseWhatHasSeveralFormats) {
  RowProblem p = problem_of(RowFunction::softmax_gradient, 2, 8);
  p.x = {DType::bf16, 8};
  p.y = {DType::f32, 8};
  p.dy = {DType::bf16, 8};
  EXPECT_EQ(refuse(p), "expected x, dy and y of one format in a gradient, found bf16, bf16 and f32");
  p.y.dtype = DType::bf16;
  EXPECT_EQ(refuse(p), std::nullopt);
  p.dy.dtype = DType::int8;
  EXPECT_EQ(refuse(p), "dy is int8; row functions store f32, bf16 and f16");
}

}  // namespace
}  // namespace ridge::ops
