#include "ridge/plan/plan.h"

#include <gtest/gtest.h>

#include "ridge/plan/device_numbers.h"
#include "ridge/plan/predict.h"

namespace ridge {
namespace {

constexpr const char* layer =
    "x: bf16[B, D]   gate: bf16[D, F]   up: bf16[D, F]   down: bf16[F, D]\n"
    "g[B, F] = x * gate\nu[B, F] = x * up\nh[B, F] = silu(g) * u\ny: bf16[B, D] = h * down";

Result<PlannedProgram> planned(std::int64_t rows, const PlanRequest& request = {}, std::int64_t width = 4096,
                               std::int64_t hidden = 14336) {
  const auto program = parse(layer);
  const auto explanation = explain(*program, *find_machine("h200"), {{"B", rows}, {"D", width}, {"F", hidden}});
  return predict_program(*program, *explanation, request);
}

TEST(ChooseFusion, ChosenPlanIsNoSlowerThanUnfused) {
  const std::pair<std::int64_t, std::int64_t> layers[] = {
      {1024, 4096}, {2048, 5632}, {4096, 11008}, {4096, 14336}, {5120, 13824}};
  for (const auto& [width, hidden] : layers)
    for (const std::int64_t rows : {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 2048, 8192}) {
      const auto chosen = planned(rows, {}, width, hidden), unfused = planned(rows, {.fuse = false}, width, hidden);
      ASSERT_TRUE(chosen && unfused);
      EXPECT_LE(chosen->predicted_s.expected, unfused->predicted_s.expected * (1 + 1e-9)) << rows << " of " << width;
    }
}

TEST(ChooseFusion, FusesLargeGatedProducts) {
  const auto program = parse(
      "x: bf16[B, D]   gate: bf16[F, D]   up: bf16[F, D]\n"
      "g[B, F] = x * gate\nu[B, F] = x * up\nh: bf16[B, F] = silu(g) * u");
  const auto explanation = explain(*program, *find_machine("h200"), {{"B", 8192}, {"D", 4096}, {"F", 16384}});
  const auto many = predict_program(*program, *explanation, {});
  ASSERT_TRUE(many);
  EXPECT_EQ(many->kernels.size(), 1u);
}

TEST(ChooseFusion, ReportsWhyProductsAreNotFused) {
  const auto program = parse(layer);
  const auto device = device_numbers(*find_machine("h200"));
  const auto one =
      plan_fastest_fusion(*program, {{"B", 1}, {"D", 4096}, {"F", 14336}}, {.target = Target::cuda}, *device);
  ASSERT_TRUE(one);
  EXPECT_GT(one->fusion.groups.size(), 2u);
  bool is_reported = false;
  for (const FusionBoundary& boundary : one->fusion.boundaries)
    is_reported = is_reported || boundary.reason == "the two products are predicted to be faster in separate kernels";
  EXPECT_TRUE(is_reported);
}

TEST(ChooseFusion, RooflineAndOverheadsAddUpToThePrediction) {
  for (const std::int64_t rows : {1, 16, 257, 4096}) {
    const auto why = planned(rows, {.with_overheads = true});
    ASSERT_TRUE(why);
    for (const GroupPrediction& op : why->kernels) {
      ASSERT_FALSE(op.overheads.empty());
      EXPECT_EQ(op.overheads.back().cause, "unknown");
      double sum = op.roofline_s;
      for (const Overhead& each : op.overheads) sum += each.seconds;
      EXPECT_NEAR(sum, op.predicted_s.expected, 1e-12);
    }
  }
}

}  // namespace
}  // namespace ridge
