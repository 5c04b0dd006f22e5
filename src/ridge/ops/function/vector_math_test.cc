// Every function of one operand, on every instruction set of this CPU, over all exponents of f32, against the same
// function in f64. An error is counted in units of the result's last place (of the smallest subnormal near 0).
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "ridge/ops/chain/cpu.h"
#include "ridge/pool/isa.h"

namespace ridge::ops {
namespace {

namespace cpu = tile::cpu;
constexpr float infinity = std::numeric_limits<float>::infinity();

struct Function {
  const char* name;
  ChainOp op;
  double (*exact)(double);
  double most_ulps;
};

double exact_sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
const Function functions[] = {
    {"exp", ChainOp::exp, [](double x) { return std::exp(x); }, 2},
    {"log", ChainOp::log, [](double x) { return std::log(x); }, 2},
    {"cos", ChainOp::cos, [](double x) { return std::cos(x); }, 2},
    {"sin", ChainOp::sin, [](double x) { return std::sin(x); }, 2},
    {"tanh", ChainOp::tanh, [](double x) { return std::tanh(x); }, 2},
    {"gelu", ChainOp::gelu, [](double x) { return 0.5 * x * std::erfc(-x * std::sqrt(0.5)); }, 4},
    {"gelu_tanh", ChainOp::gelu_tanh,
     [](double x) { return x * exact_sigmoid(2 * std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)); }, 4},
    {"silu", ChainOp::silu, [](double x) { return x * exact_sigmoid(x); }, 4},
    {"sigmoid", ChainOp::sigmoid, exact_sigmoid, 4},
    {"rsqrt", ChainOp::rsqrt, [](double x) { return 1 / std::sqrt(x); }, 4},
    {"sqrt", ChainOp::sqrt, [](double x) { return std::sqrt(x); }, 0.5},
    {"relu", ChainOp::relu, [](double x) { return x > 0 ? x : 0; }, 0},
    {"negate", ChainOp::negate, [](double x) { return -x; }, 0},
    {"abs", ChainOp::abs, [](double x) { return std::abs(x); }, 0},
};

ChainProgram one_function(ChainOp op, std::int64_t n) {
  ChainProgram p;
  p.extents = {n};
  p.tensors = {{DType::f32, {1}}, {DType::f32, {1}}};
  p.steps = {{.op = ChainOp::load, .result = 0, .slot = 0},
             {.op = op, .result = 1, .a = 0},
             {.op = ChainOp::store, .a = 1, .slot = 1}};
  p.registers = 2;
  return p;
}

std::vector<float> apply(ChainOp op, std::vector<float> x) {
  std::vector<float> y(x.size(), -12345.0f);
  void* const tensors[] = {x.data(), y.data()};
  chain(one_function(op, static_cast<std::int64_t>(x.size())), tensors, 1);
  return y;
}

double unit_in_last_place(double x) {
  const int exponent = x == 0 ? -126 : std::max(std::ilogb(x), -126);
  return std::ldexp(1.0, exponent - 23);
}

double ulps(float got, double exact) {
  if (std::isnan(exact)) return std::isnan(got) ? 0 : infinity;
  const auto nearest = static_cast<float>(exact);
  if (std::isinf(nearest)) {  // just above the largest float, the largest float is one unit away
    const bool close = std::abs(exact) < 0x1.000002p128 && std::abs(got) == std::numeric_limits<float>::max();
    return got == nearest ? 0 : close ? 1 : infinity;
  }
  if (std::isinf(got) && std::abs(exact) > 0x1.fffffcp127) return 1;
  return std::abs(static_cast<double>(got) - exact) / unit_in_last_place(exact);
}

// All exponents, both signs, mantissas at the ends and spread between; and what is special.
std::vector<float> sweep() {
  std::vector<float> x;
  std::uint32_t state = 1;
  for (std::uint32_t exponent = 0; exponent < 255; ++exponent)
    for (std::uint32_t i = 0; i < 256; ++i) {
      state = state * 1664525u + 1013904223u;
      const std::uint32_t mantissa = i < 2 ? i : i < 4 ? 0x7fffff - (i - 2) : state >> 9;
      for (const std::uint32_t sign : {0u, 0x80000000u})
        x.push_back(std::bit_cast<float>(sign | exponent << 23 | mantissa));
    }
  for (int i = -120000; i <= 120000; ++i) x.push_back(static_cast<float>(i) * 0x1.01p-10f);  // where functions bend
  // The floats nearest to multiples of pi/2, where the angle's rest is smallest.
  for (double k = 1; k < 1e36; k = std::floor(k * 1.37 + 1)) x.push_back(static_cast<float>(k * M_PI_2));
  return x;
}

class OnEveryIsa : public testing::Test {
 protected:
  void SetUp() override { before_ = cpu::isa(); }
  void TearDown() override { cpu::use_isa(before_); }

 private:
  cpu::Isa before_ = cpu::Isa::plain;
};

using VectorMath = OnEveryIsa;

TEST_F(VectorMath, errors_stay_within_their_bounds_over_all_exponents) {
  const std::vector<float> x = sweep();
  for (const Function& f : functions) {
    std::vector<double> exact;
    exact.reserve(x.size());
    for (const float each : x) exact.push_back(f.exact(each));
    for (const cpu::Isa isa : cpu::available_isas()) {
      ASSERT_TRUE(cpu::use_isa(isa));
      const std::vector<float> y = apply(f.op, x);
      double worst = 0;
      std::size_t at = 0;
      for (std::size_t i = 0; i < x.size(); ++i)
        if (const double error = ulps(y[i], exact[i]); error > worst) worst = error, at = i;
      EXPECT_LE(worst, f.most_ulps) << f.name << " on " << cpu::name(isa) << " at " << x[at] << ": " << y[at]
                                    << ", exact " << exact[at];
      RecordProperty(std::string(f.name) + "_" + std::string(cpu::name(isa)), std::to_string(worst));
    }
  }
}

// A large argument has an exact angle, and libm's f64 knows it: these are values of every size of exponent.
TEST_F(VectorMath, angles_of_large_arguments_are_reduced_exactly) {
  const std::vector<float> x{65536.0f, 65537.0f, 1e6f, 12345678.0f, 1e10f, 1e22f, 16367173.0f * 0x1p72f,
                             3.4e38f,  -1e30f};
  for (const cpu::Isa isa : cpu::available_isas()) {
    ASSERT_TRUE(cpu::use_isa(isa));
    const std::vector<float> sines = apply(ChainOp::sin, x), cosines = apply(ChainOp::cos, x);
    for (std::size_t i = 0; i < x.size(); ++i) {
      EXPECT_LE(ulps(sines[i], std::sin(static_cast<double>(x[i]))), 2) << x[i];
      EXPECT_LE(ulps(cosines[i], std::cos(static_cast<double>(x[i]))), 2) << x[i];
    }
  }
}

TEST_F(VectorMath, nan_gives_nan_and_infinities_their_limits) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  struct Case {
    ChainOp op;
    float below, above;  // f(-inf), f(inf)
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
                        {ChainOp::abs, infinity, infinity}};
  const auto same = [](float a, float b) {
    return std::isnan(a) ? std::isnan(b) : std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
  };
  for (const cpu::Isa isa : cpu::available_isas()) {
    ASSERT_TRUE(cpu::use_isa(isa));
    for (const Case& c : cases) {
      std::vector<float> x(19, 0.5f);  // a whole vector and some
      x[3] = nan, x[4] = -infinity, x[5] = infinity, x[18] = -nan;
      const std::vector<float> y = apply(c.op, x);
      const std::string where = std::to_string(static_cast<int>(c.op)) + " on " + std::string(cpu::name(isa));
      EXPECT_TRUE(std::isnan(y[3]) && std::isnan(y[18])) << where;
      EXPECT_TRUE(same(c.below, y[4])) << where << ": " << y[4];
      EXPECT_TRUE(same(c.above, y[5])) << where << ": " << y[5];
      for (const std::size_t i : {0, 1, 2, 6, 17}) EXPECT_FALSE(std::isnan(y[i])) << where;
    }
  }
}

TEST_F(VectorMath, zeros_keep_their_signs) {
  for (const cpu::Isa isa : cpu::available_isas()) {
    ASSERT_TRUE(cpu::use_isa(isa));
    for (const ChainOp op :
         {ChainOp::sin, ChainOp::tanh, ChainOp::gelu, ChainOp::gelu_tanh, ChainOp::silu, ChainOp::sqrt}) {
      const std::vector<float> y = apply(op, {0.0f, -0.0f});
      EXPECT_TRUE(y[0] == 0 && !std::signbit(y[0])) << static_cast<int>(op);
      EXPECT_TRUE(y[1] == 0 && std::signbit(y[1])) << static_cast<int>(op);
    }
    EXPECT_EQ(apply(ChainOp::log, {0.0f, -0.0f}), (std::vector<float>{-infinity, -infinity}));
    EXPECT_EQ(apply(ChainOp::rsqrt, {0.0f, -0.0f}), (std::vector<float>{infinity, -infinity}));
    EXPECT_EQ(apply(ChainOp::exp, {0.0f, -0.0f}), (std::vector<float>{1, 1}));
  }
}

}  // namespace
}  // namespace ridge::ops
