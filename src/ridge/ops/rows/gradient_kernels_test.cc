// Tests gradients of row functions in f64 against finite differences of the functions. tests/rows compares the CPU
// kernels with these kernels in f64.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "ridge/ops/rows/cpu.h"

namespace ridge::ops {
namespace {

using RowVector = std::vector<double>;

constexpr RowFunction gradients[] = {RowFunction::softmax_gradient, RowFunction::rmsnorm_gradient,
                                     RowFunction::layernorm_gradient};

RowFunction differentiated_function(RowFunction gradient) {
  if (gradient == RowFunction::rmsnorm_gradient) return RowFunction::rmsnorm;
  return gradient == RowFunction::layernorm_gradient ? RowFunction::layernorm : RowFunction::softmax;
}

RowProblem make_problem(RowFunction function, std::int64_t rows = 1, std::int64_t columns = 1) {
  RowProblem p;
  p.function = function;
  p.rows = rows;
  p.columns = columns;
  return p;
}

double loss(RowFunction function, const RowInputs& row) {  // sum of dy * y
  const RowVector y = evaluate_in_f64(make_problem(function), row);
  double sum = 0;
  for (std::size_t i = 0; i < y.size(); ++i)
    sum += row.dy[i] * y[i] * (function == RowFunction::softmax ? 1 : row.weight[i]);
  return sum;
}

TEST(Gradients, EqualFiniteDifferences) {
  std::mt19937 random(5);
  std::normal_distribution<double> normal(0.3, 1);
  for (const RowFunction gradient : gradients)
    for (const std::size_t columns : {1u, 2u, 3u, 8u, 16u}) {
      RowInputs row;
      for (RowVector* each : {&row.x, &row.dy, &row.weight})
        for (std::size_t i = 0; i < columns; ++i) each->push_back(normal(random));
      RowInputs inputs = row;  // x of softmax's gradient is softmax's result.
      if (gradient == RowFunction::softmax_gradient)
        inputs.x = evaluate_in_f64(make_problem(RowFunction::softmax), row);
      const RowVector dx = evaluate_in_f64(make_problem(gradient), inputs);
      for (std::size_t i = 0; i < columns; ++i) {
        RowInputs up = row, down = row;
        for (RowInputs* each : {&up, &down}) each->weight.assign(columns, 1);
        for (RowInputs* each : {&up, &down})
          for (std::size_t c = 0; c < columns; ++c)
            each->dy[c] = gradient == RowFunction::softmax_gradient ? row.dy[c] : row.dy[c] * row.weight[c];
        constexpr double step = 1e-5;
        up.x[i] += step;
        down.x[i] -= step;
        const RowFunction function = differentiated_function(gradient);
        EXPECT_NEAR(dx[i], (loss(function, up) - loss(function, down)) / (2 * step), 2e-7)
            << static_cast<int>(gradient) << ", column " << i << " of " << columns;
      }
    }
}

TEST(Gradients, RejectMixedFormats) {
  RowProblem p = make_problem(RowFunction::softmax_gradient, 2, 8);
  p.x = {DType::bf16, 8};
  p.y = {DType::f32, 8};
  p.dy = {DType::bf16, 8};
  EXPECT_EQ(unsupported_reason(p).text(), "expected x, dy and y of one format in a gradient, found bf16, bf16 and f32");
  p.y.dtype = DType::bf16;
  EXPECT_FALSE(unsupported_reason(p));
  p.dy.dtype = DType::int8;
  EXPECT_EQ(unsupported_reason(p).text(), "dy is int8; row functions store f32, bf16 and f16");
}

}  // namespace
}  // namespace ridge::ops
