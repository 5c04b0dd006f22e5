// Maxima and means of random windows against loops over single elements in f64. Values are small integers, so that sums
// are exact.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "ridge/ops/loops/cpu.h"
#include "ridge/ops/loops/testing/random_cases.h"
#include "ridge/pool/testing/isa_fixture.h"

namespace ridge::ops {
namespace {

using loops_testing::GuardedBuffer;
using loops_testing::RandomLayouts;

// Returns the offset in y of the output element `output`.
std::int64_t find_result(const PoolLoops& pool, std::int64_t output) {
  std::int64_t at = 0;
  for (auto axis = pool.axes.rbegin(); axis != pool.axes.rend(); output /= axis->out, ++axis)
    at += output % axis->out * axis->y_stride;
  return at;
}
std::int64_t count_points(const PoolLoops& pool, std::int64_t PoolAxis::*extent) {
  std::int64_t n = 1;
  for (const PoolAxis& axis : pool.axes) n *= axis.*extent;
  return n;
}

// Returns the window's result for the output element `output`.
double evaluate_window(const PoolLoops& pool, const void* x, std::int64_t output) {
  std::int64_t points = count_points(pool, &PoolAxis::kernel);
  double sum = 0, largest = -std::numeric_limits<double>::infinity();
  for (std::int64_t point = 0; point < points; ++point) {
    std::int64_t rest = output, tap = point, at = 0;
    bool is_inside = true;
    for (auto axis = pool.axes.rbegin(); axis != pool.axes.rend(); ++axis) {
      const std::int64_t i = rest % axis->out * axis->stride + tap % axis->kernel * axis->dilation - axis->padding;
      is_inside = is_inside && i >= 0 && i < axis->in;
      at += i * axis->x_stride;
      rest /= axis->out;
      tap /= axis->kernel;
    }
    if (!is_inside) continue;
    const double value = RandomLayouts::load(pool.x, x, at);
    sum += value;
    largest = std::isnan(value) || value > largest ? value : largest;
  }
  return pool.is_maximum ? largest : static_cast<double>(static_cast<float>(sum) / static_cast<float>(points));
}

class Pool : public pool::IsaTest {};

TEST_P(Pool, matches_sums_and_maxima_of_single_elements) {
  for (unsigned seed = 0; seed < loops_testing::case_count(200); ++seed) {
    RandomLayouts random(seed);
    const auto [pool, inputs, outputs] = loops_testing::make_pool_case(random);
    const GuardedBuffer x(inputs * dtype_bits(pool.x) / 8, random.guard_side()),
        y(outputs * dtype_bits(pool.y) / 8, random.guard_side()), expected(outputs * dtype_bits(pool.y) / 8);
    random.fill_floats(pool.x, x, true);
    for (std::int64_t i = 0; pool.is_maximum && i < inputs / 9; ++i)
      RandomLayouts::store(pool.x, x.data(), random.below(inputs), std::numeric_limits<float>::quiet_NaN());
    x.make_read_only();
    expected.fill(0x7b);
    for (std::int64_t i = count_points(pool, &PoolAxis::out) - 1; i >= 0; --i)
      RandomLayouts::store(pool.y, expected.data(), find_result(pool, i),
                           static_cast<float>(evaluate_window(pool, x.data(), i)));
    for (const int threads : {1, 3}) {
      y.fill(0x7b);
      void* const data[] = {x.data(), y.data()};
      run_loops(pool, data, threads);
      for (std::int64_t i = 0; i < outputs; ++i) {
        const double made = RandomLayouts::load(pool.y, y.data(), i),
                     wanted = RandomLayouts::load(pool.y, expected.data(), i);
        ASSERT_TRUE(made == wanted || (std::isnan(made) && std::isnan(wanted)))
            << "seed " << seed << ", element " << i << ": " << made << ", expected " << wanted;
      }
      ASSERT_TRUE(y.are_edges_intact()) << seed;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Isa, Pool, ::testing::Values(pool::Isa::plain, pool::Isa::avx2, pool::Isa::avx512),
                         [](const auto& test) { return std::string(pool::isa_name(test.param)); });

}  // namespace
}  // namespace ridge::ops
