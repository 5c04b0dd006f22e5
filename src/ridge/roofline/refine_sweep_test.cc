// Between a sweep's points, the limiter changes at the sizes that explain() gives, and curves bend there.
#include "ridge/roofline/refine_sweep.h"

#include <gtest/gtest.h>

#include "ridge/roofline/sweep.h"
#include "ridge/roofline/testing/test_machine.h"

namespace ridge {
namespace {

Sweep make_refined_sweep(const char* text, const std::vector<std::string>& ranges, bool curves) {
  const Program program = *parse(text);
  const Machine machine = testing::make_test_machine({{DType::bf16, 1e14}}, 1e13, 1e12);
  Sweep sweep;
  for (const std::string& range : ranges) sweep.ranges.push_back(*parse_range(range));
  sweep.lines.push_back(*sweep_line(program, machine, sweep.ranges));
  refine_sweep(program, machine, sweep, curves, sweep.lines.front());
  return sweep;
}

constexpr const char* product = "bf16[B, D] * bf16[D, F] -> bf16[B, F]";

TEST(SweepRefiner, ReportsTheFirstSizeWithTheNewLimiter) {
  const Sweep coarse = make_refined_sweep(product, {"D=8192", "F=8192", "B=1..4096:*2"}, false);
  ASSERT_EQ(coarse.lines[0].changes.size(), 1u);
  const SweepChange& change = coarse.lines[0].changes[0];
  EXPECT_EQ(change.first, 103);  // 100*D*F/(D*F - 100*(D + F)) = 102.5
  EXPECT_EQ(change.from, Limiter::memory);
  EXPECT_EQ(change.to, Limiter::compute);
  EXPECT_EQ(coarse.size_at(change.point, 2), 128);
  EXPECT_TRUE(coarse.lines[0].curves.empty()) << "no curves were requested";
}

TEST(SweepRefiner, CurveAndFusedCurveBendAtTheirLimiterChanges) {
  const Sweep sweep = make_refined_sweep("x: bf16[B, D]  w: bf16[D, F]\nu[B, F] = x * w\ny: bf16[B, F] = gelu(u)",
                                         {"D=8192", "F=8192", "B=1..4096:*4"}, true);
  ASSERT_EQ(sweep.lines[0].curves.size(), 1u);
  const SweepCurve& curve = sweep.lines[0].curves[0];
  EXPECT_GT(curve.points.size(), 50u);
  EXPECT_EQ(curve.points.front().size, 1);
  EXPECT_EQ(curve.points.back().size, 4096);
  ASSERT_FALSE(curve.fused.empty());
  EXPECT_GT(curve.fused.back().flops_per_s, curve.points.back().flops_per_s);
  ASSERT_FALSE(curve.changes.empty());
  for (std::size_t i = 1; i < curve.points.size(); ++i) EXPECT_LT(curve.points[i - 1].size, curve.points[i].size);
}

TEST(SweepRefiner, EachCombinationOfTheOtherRangesHasACurve) {
  const Sweep sweep = make_refined_sweep(product, {"D=4096,8192", "F=8192", "B=1..64:*2"}, true);
  ASSERT_EQ(sweep.lines[0].curves.size(), 2u);
  EXPECT_EQ(sweep.size_at(sweep.lines[0].curves[1].first_point, 0), 8192);
}

}  // namespace
}  // namespace ridge
