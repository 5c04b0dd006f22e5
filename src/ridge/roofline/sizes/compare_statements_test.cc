// Tiles and waves, and comparisons of statements.
#include <gtest/gtest.h>

#include "ridge/roofline/sizes/compare_statements.h"
#include "ridge/roofline/testing/test_machine.h"
#include "ridge/roofline/tile_waves.h"

namespace ridge {
namespace {

Machine make_machine(double cores) {
  Machine machine = testing::make_test_machine({{DType::bf16, 1e12}}, 1e11, 1e10);
  machine.numbers["cores"] = testing::make_number(cores);
  return machine;
}

TEST(TileWaves, match_published_numbers_of_an_a100) {
  const Program product = *parse("bf16[M, K] * bf16[K, N] -> bf16[M, N]");
  const auto at = [&](std::int64_t n) {
    return count_tile_waves(product, make_machine(108), {{"M", n}, {"N", n}, {"K", n}}, "256x128")->front();
  };
  EXPECT_EQ(at(1792).tiles, 98);
  EXPECT_EQ(at(1792).waves, 1);
  EXPECT_DOUBLE_EQ(at(1792).padding_fraction, 0);
  EXPECT_EQ(at(1793).tiles, 120);
  EXPECT_EQ(at(1793).waves, 2);
  EXPECT_DOUBLE_EQ(at(1793).utilization, 120 / 216.0);
  EXPECT_EQ(count_tile_waves(product, make_machine(108), {{"M", 1}, {"N", 1}, {"K", 1}}, "256").error().to_string(),
            "expected ROWSxCOLUMNS of 1 to 1048576 after --tile, found '256'\n  hint: --tile 256x128\n");
}

TEST(StatementComparison, attention_costs_more_from_twice_the_width) {
  const Program program = *parse(
      "dims T, S = T, D = 1024, N = 8, H = 128\nx: bf16[T, D]   z: bf16[S, D]\n"
      "wq: bf16[D, N, H]   wk: bf16[D, N, H]   wv: bf16[D, N, H]   wo: bf16[N, H, D]\n"
      "q[T, N, H] = x * wq\nk[S, N, H] = z * wk\nv[S, N, H] = z * wv\n"
      "s[T, N, S] = q * k\no[T, N, H] = s * v\ny: bf16[T, D] = o * wo");
  const auto found = compare_statements(program, make_machine(1), {{"T", 100}}, "s, o = q, k, v, y");
  ASSERT_TRUE(found.ok()) << found.error().to_string();
  const auto t = std::find_if(found->flops_thresholds.begin(), found->flops_thresholds.end(),
                              [](const Threshold& x) { return x.dim == "T"; });
  ASSERT_NE(t, found->flops_thresholds.end());
  EXPECT_EQ(t->relation, Relation::at_least);
  EXPECT_EQ(t->value, 2048);  // 4*T*T*N*H against 8*T*D*N*H: T >= 2*D
  EXPECT_FALSE(found->time_thresholds.empty());
  EXPECT_EQ(compare_statements(program, make_machine(1), {{"T", 100}}, "s = w").error().message,
            "expected statements of the program on both sides of '=', found 'w'");
}

}  // namespace
}  // namespace ridge
