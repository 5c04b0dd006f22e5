// Top-k and sorting of random lines, with ties, NaNs, infinities and zeros of both signs, against a stable sort.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "ridge/ops/loops/cpu.h"
#include "ridge/ops/loops/lines.h"
#include "ridge/ops/loops/testing/random_cases.h"
#include "ridge/pool/testing/isa_fixture.h"

namespace ridge::ops {
namespace {

using loops_testing::GuardedBuffer;
using loops_testing::RandomLayouts;

void run_reference(const TopKLoops& l, const void* x, void* y) {
  LoopCursor cursor(l.axes, 0);
  for (std::int64_t line = count_points(l.axes); line > 0; --line, cursor.advance()) {
    std::vector<double> values(l.axis.extent);
    std::vector<std::int32_t> order(values.size());
    std::iota(order.begin(), order.end(), 0);
    for (std::int64_t i = 0; i < l.axis.extent; ++i)
      values[i] = RandomLayouts::load(l.values, x, cursor.offsets().values + i * l.axis.values);
    std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
      if (std::isnan(values[a]) || std::isnan(values[b])) return std::isnan(values[b]) && !std::isnan(values[a]);
      return l.ascending ? values[a] < values[b] : values[a] > values[b];
    });
    for (std::int64_t i = 0; i < l.count; ++i) {
      const std::int64_t at = cursor.offsets().result + i * l.result_stride;
      if (l.stores_values)
        RandomLayouts::store(l.result, y, at, static_cast<float>(values[order[i]]));
      else
        static_cast<std::int32_t*>(y)[at] = order[i];
    }
  }
}

class TopK : public pool::IsaTest {};

TEST_P(TopK, matches_a_stable_sort) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  constexpr float special[] = {infinity, -infinity, std::numeric_limits<float>::quiet_NaN(), 0.0f, -0.0f};
  for (unsigned seed = 0; seed < loops_testing::case_count(200); ++seed) {
    RandomLayouts random(seed);
    auto [l, values, results] = loops_testing::make_topk_case(random);
    l.ascending = random.flip();
    l.stores_values = random.flip();
    if (l.stores_values) l.result = DType::f32;
    const GuardedBuffer x(values * dtype_bits(l.values) / 8, random.guard_side()), y(results * 4),
        expected(results * 4);
    random.fill_floats(l.values, x, random.flip());
    const std::int64_t specials = random.flip() ? values / 3 : 0;
    for (std::int64_t i = 0; i < specials; ++i)
      RandomLayouts::store(l.values, x.data(), random.below(values), special[random.below(5)]);
    x.make_read_only();
    run_reference(l, x.data(), expected.data());
    for (const int threads : {1, 3}) {
      y.fill(0x7b);
      void* const data[] = {x.data(), y.data()};
      run_loops(l, data, threads);
      ASSERT_EQ(std::memcmp(y.data(), expected.data(), y.size()), 0)
          << "seed " << seed << ", " << threads << " threads";
      ASSERT_TRUE(y.are_edges_intact()) << seed;
    }
  }
}

// Each element is larger than all before it, so that the scan collects all of them.
TEST_P(TopK, finds_the_last_elements_of_an_ascending_line) {
  constexpr std::int64_t n = 100000, count = 50;
  std::vector<float> x(n);
  std::iota(x.begin(), x.end(), 0.0f);
  std::vector<std::int32_t> y(count);
  void* const data[] = {x.data(), y.data()};
  run_loops(TopKLoops{.axes = {}, .axis = {n, 1, 0, 0}, .count = count, .result_stride = 1}, data, 1);
  for (std::int32_t i = 0; i < count; ++i) ASSERT_EQ(y[i], n - 1 - i);
}

// The first elements make 1 the threshold; the largest are the next float.
TEST_P(TopK, separates_neighbouring_floats) {
  constexpr std::int64_t n = 2000, count = 40;
  std::vector<float> x(n, 1.0f);
  for (std::int64_t i = 1500; i < n; i += 10) x[i] = std::nextafter(1.0f, 2.0f);
  std::vector<std::int32_t> y(count);
  void* const data[] = {x.data(), y.data()};
  run_loops(TopKLoops{.axes = {}, .axis = {n, 1, 0, 0}, .count = count, .result_stride = 1}, data, 1);
  for (std::int32_t i = 0; i < count; ++i) ASSERT_EQ(y[i], 1500 + 10 * i);
}

INSTANTIATE_TEST_SUITE_P(Isa, TopK, ::testing::Values(pool::Isa::plain, pool::Isa::avx2, pool::Isa::avx512),
                         [](const auto& test) { return std::string(pool::isa_name(test.param)); });

}  // namespace
}  // namespace ridge::ops
