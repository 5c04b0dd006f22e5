// Checks every elementwise function on every instruction set of this CPU, over all exponents of f32, against the same
// function in f64. Errors are in ulp of the result; one ulp of a subnormal is the smallest subnormal.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "ridge/ops/chain/cpu.h"
#include "ridge/pool/isa.h"

namespace ridge::ops {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

std::vector<FunctionInfo> functions_with_arity(int operands) {
  std::vector<FunctionInfo> found;
  for (const FunctionInfo& f : function_table)
    if (is_elementwise(f) && f.arity == operands) found.push_back(f);
  return found;
}

ChainProgram make_unary_program(ChainOp op, std::int64_t n) {
  ChainProgram p;
  p.extents = {n};
  p.tensors = {{DType::f32, {1}}, {DType::f32, {1}}};
  p.steps = {{.op = ChainOp::load, .result = 0, .slot = 0},
             {.op = op, .result = 1, .a = 0},
             {.op = ChainOp::store, .a = 1, .slot = 1}};
  p.registers = 2;
  return p;
}

std::vector<float> run_function(ChainOp op, std::vector<float> x) {
  std::vector<float> y(x.size(), -12345.0f);
  void* const tensors[] = {x.data(), y.data()};
  run_chain_program(make_unary_program(op, static_cast<std::int64_t>(x.size())), tensors, 1);
  return y;
}

double unit_in_last_place(double x) {
  const int exponent = x == 0 ? -126 : std::max(std::ilogb(x), -126);
  return std::ldexp(1.0, exponent - 23);
}

double ulp_error(float got, double exact) {
  if (std::isnan(exact)) return std::isnan(got) ? 0 : infinity;
  const auto nearest = static_cast<float>(exact);
  if (std::isinf(nearest)) {  // the largest float is one unit below infinity
    const bool close = std::abs(exact) < 0x1.000002p128 && std::abs(got) == std::numeric_limits<float>::max();
    if (got == nearest) return 0;
    return close ? 1 : infinity;
  }
  if (std::isinf(got) && std::abs(exact) > 0x1.fffffcp127) return 1;
  return std::abs(static_cast<double>(got) - exact) / unit_in_last_place(exact);
}

// Returns floats of all exponents and signs with the extreme and random mantissas, a grid of small numbers, and the
// floats nearest to multiples of pi/2.
std::vector<float> sweep_arguments() {
  std::vector<float> x;
  std::uint32_t state = 1;
  for (std::uint32_t exponent = 0; exponent < 255; ++exponent)
    for (std::uint32_t i = 0; i < 256; ++i) {
      state = state * 1664525u + 1013904223u;
      std::uint32_t mantissa = state >> 9;
      if (i < 4) mantissa = i < 2 ? i : 0x7fffff - (i - 2);
      for (const std::uint32_t sign : {0u, 0x80000000u})
        x.push_back(std::bit_cast<float>(sign | exponent << 23 | mantissa));
    }
  // Functions are curved near 0.
  for (int i = -120000; i <= 120000; ++i) x.push_back(static_cast<float>(i) * 0x1.01p-10f);
  // The floats nearest to multiples of pi/2, where the reduced angle is smallest.
  for (double k = 1; k < 1e36; k = std::floor(k * 1.37 + 1)) x.push_back(static_cast<float>(k * M_PI_2));
  return x;
}

class OnEveryIsa : public testing::Test {
 protected:
  void SetUp() override { before_ = pool::active_isa(); }
  void TearDown() override { pool::set_active_isa(before_); }

 private:
  pool::Isa before_ = pool::Isa::plain;
};

using VectorMath = OnEveryIsa;

TEST_F(VectorMath, unary_errors_stay_within_bounds_over_all_exponents) {
  const std::vector<float> x = sweep_arguments();
  for (const FunctionInfo& f : functions_with_arity(1)) {
    std::vector<double> exact;
    exact.reserve(x.size());
    for (const float each : x) exact.push_back(f.reference(each, 0, 0));
    for (const pool::Isa isa : pool::available_isas()) {
      ASSERT_TRUE(pool::set_active_isa(isa));
      const std::vector<float> y = run_function(f.function, x);
      double worst = 0;
      std::size_t at = 0;
      for (std::size_t i = 0; i < x.size(); ++i)
        if (const double error = ulp_error(y[i], exact[i]); error > worst) {
          worst = error;
          at = i;
        }
      EXPECT_LE(worst, f.ulps) << f.name << " on " << pool::isa_name(isa) << " at " << x[at] << ": " << y[at]
                               << ", exact " << exact[at];
      RecordProperty(std::string(f.name) + "_" + std::string(pool::isa_name(isa)), std::to_string(worst));
    }
  }
}

// The reference is libm in f64, which reduces large arguments exactly.
TEST_F(VectorMath, angles_of_large_arguments_are_reduced_exactly) {
  const std::vector<float> x{65536.0f, 65537.0f, 1e6f, 12345678.0f, 1e10f, 1e22f, 16367173.0f * 0x1p72f,
                             3.4e38f,  -1e30f};
  for (const pool::Isa isa : pool::available_isas()) {
    ASSERT_TRUE(pool::set_active_isa(isa));
    const std::vector<float> sines = run_function(ChainOp::sin, x), cosines = run_function(ChainOp::cos, x);
    for (std::size_t i = 0; i < x.size(); ++i) {
      EXPECT_LE(ulp_error(sines[i], std::sin(static_cast<double>(x[i]))), 2) << x[i];
      EXPECT_LE(ulp_error(cosines[i], std::cos(static_cast<double>(x[i]))), 2) << x[i];
    }
  }
}

TEST_F(VectorMath, nan_gives_nan_and_infinities_give_the_limits) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  struct Case {
    ChainOp op;
    float at_minus_infinity, at_infinity;
  };
  const Case cases[] = {{ChainOp::exp, 0, infinity},
                        {ChainOp::log, nan, infinity},
                        {ChainOp::cos, nan, nan},
                        {ChainOp::sin, nan, nan},
                        {ChainOp::tanh, -1, 1},
                        {ChainOp::gelu, -0.0f, infinity},
                        {ChainOp::gelu_tanh, -0.0f, infinity},
                        {ChainOp::silu, -0.0f, infinity},
                        {ChainOp::sigmoid, 0, 1},
                        {ChainOp::rsqrt, nan, 0},
                        {ChainOp::sqrt, nan, infinity},
                        {ChainOp::relu, 0, infinity},
                        {ChainOp::negate, infinity, -infinity},
                        {ChainOp::abs, infinity, infinity},
                        {ChainOp::erf, -1, 1},
                        {ChainOp::softplus, 0, infinity},
                        {ChainOp::tan, nan, nan},
                        {ChainOp::atan, -1.57079637f, 1.57079637f},
                        {ChainOp::log1p, nan, infinity},
                        {ChainOp::expm1, -1, infinity},
                        {ChainOp::floor, -infinity, infinity},
                        {ChainOp::round, -infinity, infinity},
                        {ChainOp::sign, -1, 1},
                        {ChainOp::leaky_relu, -infinity, infinity},
                        {ChainOp::hard_swish, -0.0f, infinity},
                        {ChainOp::mish, -0.0f, infinity}};
  EXPECT_EQ(std::size(cases), functions_with_arity(1).size());
  const auto same = [](float a, float b) {
    return std::isnan(a) ? std::isnan(b) : std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
  };
  for (const pool::Isa isa : pool::available_isas()) {
    ASSERT_TRUE(pool::set_active_isa(isa));
    for (const Case& c : cases) {
      std::vector<float> x(19, 0.5f);  // one full vector and a partial one
      x[3] = nan;
      x[4] = -infinity;
      x[5] = infinity;
      x[18] = -nan;
      const std::vector<float> y = run_function(c.op, x);
      const std::string where = std::to_string(static_cast<int>(c.op)) + " on " + std::string(pool::isa_name(isa));
      EXPECT_TRUE(std::isnan(y[3]) && std::isnan(y[18])) << where;
      EXPECT_TRUE(same(c.at_minus_infinity, y[4])) << where << ": " << y[4];
      EXPECT_TRUE(same(c.at_infinity, y[5])) << where << ": " << y[5];
      for (const std::size_t i : {0, 1, 2, 6, 17}) EXPECT_FALSE(std::isnan(y[i])) << where;
    }
  }
}

TEST_F(VectorMath, zeros_keep_their_signs) {
  for (const pool::Isa isa : pool::available_isas()) {
    ASSERT_TRUE(pool::set_active_isa(isa));
    for (const ChainOp op :
         {ChainOp::sin, ChainOp::tanh, ChainOp::gelu, ChainOp::gelu_tanh, ChainOp::silu, ChainOp::sqrt, ChainOp::erf,
          ChainOp::tan, ChainOp::atan, ChainOp::log1p, ChainOp::expm1, ChainOp::floor, ChainOp::round, ChainOp::sign,
          ChainOp::leaky_relu, ChainOp::hard_swish, ChainOp::mish}) {
      const std::vector<float> y = run_function(op, {0.0f, -0.0f});
      EXPECT_TRUE(y[0] == 0 && !std::signbit(y[0])) << static_cast<int>(op);
      EXPECT_TRUE(y[1] == 0 && std::signbit(y[1])) << static_cast<int>(op);
    }
    EXPECT_EQ(run_function(ChainOp::log, {0.0f, -0.0f}), (std::vector<float>{-infinity, -infinity}));
    EXPECT_EQ(run_function(ChainOp::rsqrt, {0.0f, -0.0f}), (std::vector<float>{infinity, -infinity}));
    EXPECT_EQ(run_function(ChainOp::exp, {0.0f, -0.0f}), (std::vector<float>{1, 1}));
  }
}

// Results that C, IEEE 754 or the function table requires for special arguments.
struct SpecialCase {
  ChainOp op;
  float a, b, c, expected;
};
constexpr float nan = std::numeric_limits<float>::quiet_NaN();
constexpr SpecialCase special_cases[] = {
    {ChainOp::pow, nan, 0, 0, 1},
    {ChainOp::pow, 1, nan, 0, 1},
    {ChainOp::pow, -2, 3, 0, -8},
    {ChainOp::pow, -8, 0.5f, 0, nan},
    {ChainOp::pow, -0.0f, -1, 0, -infinity},
    {ChainOp::pow, -0.0f, 3, 0, -0.0f},
    {ChainOp::pow, 0, -2, 0, infinity},
    {ChainOp::pow, -1, infinity, 0, 1},
    {ChainOp::pow, -infinity, 3, 0, -infinity},
    {ChainOp::pow, -infinity, 0.5f, 0, infinity},
    {ChainOp::pow, 0.5f, -infinity, 0, infinity},
    {ChainOp::pow, 3, 2, 0, 9},
    {ChainOp::round, 0.5f, 0, 0, 0},
    {ChainOp::round, 1.5f, 0, 0, 2},
    {ChainOp::round, 2.5f, 0, 0, 2},
    {ChainOp::round, -0.5f, 0, 0, -0.0f},
    {ChainOp::round, 8388607.5f, 0, 0, 8388608},
    {ChainOp::floor, -0.25f, 0, 0, -1},
    {ChainOp::floor, 1e-45f, 0, 0, 0},
    {ChainOp::floor, -1e-45f, 0, 0, -1},
    {ChainOp::clamp, 5, -1, 1, 1},
    {ChainOp::clamp, -5, -1, 1, -1},
    {ChainOp::clamp, nan, -1, 1, nan},
    {ChainOp::clamp, 0, nan, 1, nan},
    {ChainOp::log1p, -1, 0, 0, -infinity},
    {ChainOp::log1p, 1e-45f, 0, 0, 1e-45f},
    {ChainOp::expm1, 1e-45f, 0, 0, 1e-45f},
    {ChainOp::leaky_relu, -100, 0, 0, -1},
    {ChainOp::hard_swish, -3, 0, 0, -0.0f},
    {ChainOp::max, nan, 1, 0, nan},
    {ChainOp::min, 1, nan, 0, nan},
    {ChainOp::where, nan, 2, 3, 2},
};

std::vector<float> run_function(ChainOp op, std::vector<float> a, std::vector<float> b, std::vector<float> c) {
  const auto n = static_cast<std::int64_t>(a.size());
  std::vector<float> y(a.size(), -12345.0f);
  void* const tensors[] = {a.data(), b.data(), c.data(), y.data()};
  ChainProgram p;
  p.extents = {n};
  p.registers = 4;
  p.tensors.assign(4, {DType::f32, {1}});
  for (int i = 0; i < 3; ++i) p.steps.push_back({.op = ChainOp::load, .result = i, .slot = i});
  p.steps.push_back({.op = op, .result = 3, .a = 0, .b = 1, .c = 2});
  p.steps.push_back({.op = ChainOp::store, .a = 3, .slot = 3});
  run_chain_program(p, tensors, 1);
  return y;
}

TEST_F(VectorMath, special_arguments_give_the_required_results) {
  for (const pool::Isa isa : pool::available_isas()) {
    ASSERT_TRUE(pool::set_active_isa(isa));
    for (const SpecialCase& e : special_cases) {
      const float y = run_function(e.op, {e.a}, {e.b}, {e.c})[0];
      EXPECT_TRUE(std::isnan(e.expected) ? std::isnan(y) : std::bit_cast<int>(y) == std::bit_cast<int>(e.expected))
          << function_info(e.op).name << " on " << pool::isa_name(isa) << " of " << e.a << ", " << e.b << ", " << e.c
          << ": " << y;
    }
  }
}

// Combines random operands of all magnitudes; for pow the exponents are such that the result is a finite float.
TEST_F(VectorMath, binary_and_ternary_errors_stay_within_bounds) {
  const std::vector<float> a = sweep_arguments();
  std::vector<float> b(a.size()), c(a.size());
  std::uint32_t state = 7;
  const auto next = [&] { return (state = state * 1664525u + 1013904223u) >> 8; };
  for (int operands : {2, 3})
    for (const FunctionInfo& f : functions_with_arity(operands)) {
      for (std::size_t i = 0; i < a.size(); ++i) {
        const float log = std::log(std::abs(a[i]));
        b[i] = a[next() % a.size()];
        c[i] = a[next() % a.size()];
        if (f.function == ChainOp::pow && std::isfinite(log) && log != 0)
          b[i] = (static_cast<float>(next()) * 0x1p-24f * 192 - 104) / log;
      }
      for (const pool::Isa isa : pool::available_isas()) {
        ASSERT_TRUE(pool::set_active_isa(isa));
        const std::vector<float> y = run_function(f.function, a, b, c);
        double worst = 0;
        std::size_t at = 0;
        for (std::size_t i = 0; i < a.size(); ++i)
          if (const double error = ulp_error(y[i], f.reference(a[i], b[i], c[i])); error > worst) {
            worst = error;
            at = i;
          }
        EXPECT_LE(worst, f.ulps) << f.name << " on " << pool::isa_name(isa) << " at " << a[at] << ", " << b[at] << ", "
                                 << c[at] << ": " << y[at];
      }
    }
}

}  // namespace
}  // namespace ridge::ops
