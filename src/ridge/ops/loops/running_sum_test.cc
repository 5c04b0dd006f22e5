// Running sums of random shapes, strides and dtypes against sums in f64, on every instruction set.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "ridge/ops/loops/cpu.h"
#include "ridge/ops/loops/isa_kernels.h"
#include "ridge/ops/loops/lines.h"
#include "ridge/ops/loops/testing/random_cases.h"
#include "ridge/pool/testing/isa_fixture.h"

namespace ridge::ops {
namespace {

using loops_testing::GuardedBuffer;
using loops_testing::RandomLayouts;

// Compares with a sum in f64, whose own error has the same bound.
void expect_sums(const RunningSumLoops& l, const void* x, const void* y, const std::string& where) {
  const double units[] = {0x1p-24, 0x1p-8, 0x1p-11},
               unit = units[static_cast<int>(l.result != DType::f32) + static_cast<int>(l.result == DType::f16)];
  LoopCursor cursor(l.axes, 0);
  for (std::int64_t line = count_points(l.axes); line > 0; --line, cursor.advance()) {
    double sum = 0, magnitudes = 0;
    for (std::int64_t t = 0; t < l.axis.extent; ++t) {
      const double value = RandomLayouts::load(l.values, x, cursor.offsets().values + t * l.axis.values);
      sum += value;
      magnitudes += std::fabs(value);
      const double found = RandomLayouts::load(l.result, y, cursor.offsets().result + t * l.axis.result);
      const double error = 2 * static_cast<double>(t + 1) * 0x1p-53 * magnitudes + unit * std::fabs(sum) + 0x1p-25;
      ASSERT_LE(std::fabs(found - sum), error) << where << ", element " << t;
    }
  }
}

class RunningSums : public pool::IsaTest {};

TEST_P(RunningSums, match_sums_in_f64_with_any_number_of_threads) {
  for (unsigned seed = 0; seed < loops_testing::case_count(200); ++seed) {
    RandomLayouts random(seed);
    const auto [l, values, results] = loops_testing::make_sum_case(random);
    const GuardedBuffer x(values * dtype_bits(l.values) / 8, random.guard_side()),
        y(results * dtype_bits(l.result) / 8, random.guard_side()), again(y.size());
    random.fill_floats(l.values, x, random.flip());
    x.make_read_only();
    y.fill(0x7b);
    again.fill(0x7b);
    void* const data[] = {x.data(), y.data()};
    void* const data_again[] = {x.data(), again.data()};
    run_loops(l, data, 1);
    run_loops(l, data_again, 2 + static_cast<int>(seed % 6));
    expect_sums(l, x.data(), y.data(), "seed " + std::to_string(seed));
    ASSERT_EQ(std::memcmp(y.data(), again.data(), y.size()), 0) << seed;
    ASSERT_TRUE(y.are_edges_intact() && again.are_edges_intact()) << seed;
  }
}

TEST_P(RunningSums, of_one_long_line_do_not_depend_on_the_number_of_threads) {
  for (const std::int64_t n : {running_sum_chunk, 50 * running_sum_chunk + 3})
    for (const std::int64_t stride : {1, 3}) {
      RandomLayouts random(3);
      const RunningSumLoops l{DType::f32, DType::f32, {}, {n, stride, 0, stride}};
      const GuardedBuffer x(n * stride * 4), y(n * stride * 4), again(n * stride * 4);
      random.fill_floats(DType::f32, x, false);
      void* const data[] = {x.data(), y.data()};
      void* const data_again[] = {x.data(), again.data()};
      run_loops(l, data, 1);
      expect_sums(l, x.data(), y.data(), "one thread");
      for (const int threads : {2, 3, 16}) {
        again.fill(0xff);
        run_loops(l, data_again, threads);
        EXPECT_EQ(std::memcmp(y.data(), again.data(), y.size()), 0) << threads;
      }
    }
}

// An infinity or a NaN affects its own element and those after it, in all chunks.
TEST_P(RunningSums, keep_elements_before_an_infinity_finite) {
  constexpr std::int64_t n = 3 * running_sum_chunk;
  std::vector<float> x(n, 1.0f), y(n);
  x[2500] = std::numeric_limits<float>::infinity();
  x[5000] = -std::numeric_limits<float>::infinity();
  void* const data[] = {x.data(), y.data()};
  for (const int threads : {1, 2}) {
    run_loops(RunningSumLoops{DType::f32, DType::f32, {}, {n, 1, 0, 1}}, data, threads);
    for (std::int64_t i = 0; i < n; ++i) {
      if (i < 2500)
        ASSERT_EQ(y[i], static_cast<float>(i + 1)) << i;
      else if (i < 5000)
        ASSERT_EQ(y[i], std::numeric_limits<float>::infinity()) << i;
      else
        ASSERT_TRUE(std::isnan(y[i])) << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Isa, RunningSums, ::testing::Values(pool::Isa::plain, pool::Isa::avx2, pool::Isa::avx512),
                         [](const auto& test) { return std::string(pool::isa_name(test.param)); });

}  // namespace
}  // namespace ridge::ops
