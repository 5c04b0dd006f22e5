// Rotations of random pairs against f64, with positions up to 2^20 and every order of strides.
#include <gtest/gtest.h>

#include <cmath>

#include "ridge/ops/loops/cpu.h"
#include "ridge/ops/loops/lines.h"
#include "ridge/ops/loops/testing/random_cases.h"
#include "ridge/pool/testing/isa_fixture.h"

namespace ridge::ops {
namespace {

using loops_testing::GuardedBuffer;
using loops_testing::RandomLayouts;

// Returns the result of element `i` of the line at `at`.
double rotate_element(const RotaryLoops& l, const void* x, double position, const LoopAxis& at, std::int64_t i) {
  const std::int64_t n = l.axis.extent, pair = l.interleaved ? i / 2 : i % (n / 2);
  const bool is_second = l.interleaved ? i % 2 == 1 : i >= n / 2;
  std::int64_t partner = (i + n / 2) % n;
  if (l.interleaved) partner = is_second ? i - 1 : i + 1;
  const double angle = position * std::pow(l.base, -2.0 * static_cast<double>(pair) / static_cast<double>(n));
  const double own = RandomLayouts::load(l.values, x, at.values + i * l.axis.values),
               other = RandomLayouts::load(l.values, x, at.values + partner * l.axis.values);
  return own * std::cos(angle) + (is_second ? other : -other) * std::sin(angle);
}

class Rotary : public pool::IsaTest {};

TEST_P(Rotary, rotates_pairs_by_their_angles) {
  for (unsigned seed = 0; seed < loops_testing::case_count(200); ++seed) {
    RandomLayouts random(seed);
    const auto [l, values, positions, results] = loops_testing::make_rotary_case(random);
    const GuardedBuffer x(values * dtype_bits(l.values) / 8, random.guard_side()),
        t(positions * 4, random.guard_side()), y(results * dtype_bits(l.result) / 8, random.guard_side());
    random.fill_floats(l.values, x, false);
    loops_testing::fill_positions(random, l.positions, t, positions);
    x.make_read_only();
    t.make_read_only();
    double roundoff = 0x1p-24;
    if (l.result == DType::f16) roundoff = 0x1p-11;
    if (l.result == DType::bf16) roundoff = 0x1p-8;
    for (const int threads : {1, 3}) {
      y.fill(0x7b);
      void* const data[] = {x.data(), t.data(), y.data()};
      run_loops(l, data, threads);
      LoopCursor cursor(l.axes, 0);
      for (std::int64_t line = count_points(l.axes); line > 0; --line, cursor.advance())
        for (std::int64_t i = 0; i < l.axis.extent; ++i) {
          const LoopAxis& at = cursor.offsets();
          const double expected =
              rotate_element(l, x.data(), RandomLayouts::load(l.positions, t.data(), at.indices), at, i);
          ASSERT_NEAR(RandomLayouts::load(l.result, y.data(), at.result + i * l.axis.result), expected,
                      roundoff * std::fabs(expected) + 0x1p-21)
              << "seed " << seed << ", element " << i;
        }
      ASSERT_TRUE(y.are_edges_intact()) << seed;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Isa, Rotary, ::testing::Values(pool::Isa::plain, pool::Isa::avx2, pool::Isa::avx512),
                         [](const auto& test) { return std::string(pool::isa_name(test.param)); });

}  // namespace
}  // namespace ridge::ops
