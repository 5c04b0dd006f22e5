// Compares folds of random windows with a loop over single columns. Values are small integers, so that sums are exact.
#include <gtest/gtest.h>

#include "ridge/ops/loops/cpu.h"
#include "ridge/ops/loops/testing/random_cases.h"
#include "ridge/pool/testing/isa_fixture.h"

namespace ridge::ops {
namespace {

using loops_testing::GuardedBuffer;
using loops_testing::RandomLayouts;

// Adds every column to the element of y that it reaches. Returns the sums and the elements of y that they belong to.
std::vector<std::pair<std::int64_t, double>> add_columns(const FoldLoops& fold, const void* columns) {
  std::int64_t outputs = 1, products = 1;
  for (const FoldAxis& axis : fold.axes) {
    outputs *= axis.out;
    products *= axis.positions * axis.taps;
  }
  std::vector<std::pair<std::int64_t, double>> out(outputs);
  for (std::int64_t i = 0; i < outputs; ++i) {
    std::int64_t rest = i;
    for (auto axis = fold.axes.rbegin(); axis != fold.axes.rend(); rest /= axis->out, ++axis)
      out[i].first += rest % axis->out * axis->y_stride;
  }
  for (std::int64_t i = 0; i < products; ++i) {
    std::int64_t rest = i, from = 0, to = 0, scale = 1;
    bool is_inside = true;
    for (auto axis = fold.axes.rbegin(); axis != fold.axes.rend(); ++axis) {
      const std::int64_t position = rest % axis->positions, tap = rest / axis->positions % axis->taps;
      const std::int64_t o = position * axis->stride + tap * axis->dilation - axis->padding;
      rest /= axis->positions * axis->taps;
      is_inside = is_inside && o >= 0 && o < axis->out;
      from += position * axis->position_stride + tap * axis->tap_stride;
      to += o * scale;
      scale *= axis->out;
    }
    if (is_inside) out[to].second += RandomLayouts::load(fold.columns, columns, from);
  }
  return out;
}

class Fold : public pool::IsaTest {};

TEST_P(Fold, adds_every_column_to_one_output) {
  for (unsigned seed = 0; seed < loops_testing::case_count(300); ++seed) {
    RandomLayouts random(seed);
    const auto [fold, columns, outputs] = loops_testing::make_fold_case(random);
    const GuardedBuffer x(columns * dtype_bits(fold.columns) / 8, random.guard_side()),
        y(outputs * dtype_bits(fold.y) / 8, random.guard_side()), expected(outputs * dtype_bits(fold.y) / 8);
    random.fill_floats(fold.columns, x, true);
    x.make_read_only();
    expected.fill(0x7b);
    for (const auto& [at, sum] : add_columns(fold, x.data()))
      RandomLayouts::store(fold.y, expected.data(), at, static_cast<float>(sum));
    for (const int threads : {1, 3}) {
      y.fill(0x7b);
      void* const data[] = {x.data(), y.data()};
      run_loops(fold, data, threads);
      for (std::int64_t i = 0; i < outputs; ++i)
        ASSERT_EQ(RandomLayouts::load(fold.y, y.data(), i), RandomLayouts::load(fold.y, expected.data(), i))
            << "seed " << seed << ", element " << i << ", " << threads << " threads";
      ASSERT_TRUE(y.are_edges_intact()) << seed;
    }
  }
}

// An output that no column reaches is 0, and large strides and dilations take no more memory than the result.
TEST_P(Fold, leaves_gaps_zero) {
  constexpr std::int64_t far = 1 << 16;
  const FoldLoops fold{DType::f32,
                       DType::f32,
                       {{.positions = 2,
                         .out = far + 3,
                         .taps = 2,
                         .stride = far,
                         .padding = 1,
                         .dilation = 3,
                         .position_stride = 1,
                         .tap_stride = 2}}};
  std::vector<float> columns{1, 2, 4, 8}, y(far + 3, 16), expected(far + 3);
  expected[far - 1] = 2;  // position 1 of the first tap; its position 0 is in the padding
  expected[2] = 4;
  expected[far + 2] = 8;
  void* const data[] = {columns.data(), y.data()};
  run_loops(fold, data, 1);
  EXPECT_EQ(y, expected);
}

INSTANTIATE_TEST_SUITE_P(Isa, Fold, ::testing::Values(pool::Isa::plain, pool::Isa::avx2, pool::Isa::avx512),
                         [](const auto& test) { return std::string(pool::isa_name(test.param)); });

}  // namespace
}  // namespace ridge::ops
