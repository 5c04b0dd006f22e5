// A layer with one stacked weight matrix [2F, D] has the same plan, counts and numbers as one with two matrices.
#include <gtest/gtest.h>

#include <cstdio>

#include "ridge/measure/run.h"
#include "ridge/plan/predict.h"
#include "ridge/run/npy.h"

namespace ridge {
namespace {

constexpr const char* one =
    "dims N = 37, D = 24, F = 56\n"
    "x: f32[N, D]   w: f32[2*F, D]   b: f32[2*F]\n"
    "up[F, D] = w[0:F]\ngate[F, D] = w[F:2*F]\nbu[F] = b[0:F]\nbg[F] = b[F:2*F]\n"
    "u[N, F] = x * up\ng[N, F] = x * gate\ny: f32[N, F] = (u + bu) * gelu(g + bg)";
constexpr const char* two =
    "dims N = 37, D = 24, F = 56\n"
    "x: f32[N, D]\nup: f32[F, D]   gate: f32[F, D]   bu: f32[F]   bg: f32[F]\n"
    "u[N, F] = x * up\ng[N, F] = x * gate\ny: f32[N, F] = (u + bu) * gelu(g + bg)";

class StackRun : public testing::Test {
 protected:
  std::string path(const char* name) const { return testing::TempDir() + "ridge_stack_" + name + ".npy"; }
  Status put(const char* name, std::int64_t first, std::vector<std::int64_t> shape) const {
    std::int64_t elements = 1;
    for (const std::int64_t extent : shape) elements *= extent;
    std::vector<float> values;
    for (std::int64_t i = 0; i < elements; ++i) values.push_back(static_cast<float>((first + i) * 37 % 101 - 50) / 64);
    return write_npy(path(name), {DType::f32, elements, reinterpret_cast<std::byte*>(values.data())}, shape);
  }
  Result<Measurement> run_with(const char* text, RunOptions options) const {
    const auto program = parse(text);
    const auto explanation = explain(*program, *find_machine("h200"), {});
    return run_program(*program, *explanation, options);
  }
  std::vector<float> got(const char* name) const {
    std::vector<float> values(37 * 56);
    EXPECT_TRUE(
        read_npy(path(name), {DType::f32, 37 * 56, reinterpret_cast<std::byte*>(values.data())}, {37, 56}).ok());
    return values;
  }
  ~StackRun() override {
    for (const char* name : {"w", "b", "up", "gate", "bu", "bg", "y1", "y2"}) std::remove(path(name).c_str());
  }
};

TEST_F(StackRun, ReadsTheStackFromOneFile) {
  ASSERT_TRUE(put("w", 0, {112, 24}).ok() && put("b", 7, {112}).ok());
  ASSERT_TRUE(put("up", 0, {56, 24}).ok() && put("gate", 56 * 24, {56, 24}).ok());
  ASSERT_TRUE(put("bu", 7, {56}).ok() && put("bg", 7 + 56, {56}).ok());
  const auto first = run_with(one, {.in = {{"w", path("w")}, {"b", path("b")}}, .out = {{"y", path("y1")}}});
  ASSERT_TRUE(first.ok()) << first.error().to_string();
  EXPECT_FALSE(first->mismatch);
  const auto second =
      run_with(two, {.in = {{"up", path("up")}, {"gate", path("gate")}, {"bu", path("bu")}, {"bg", path("bg")}},
                     .out = {{"y", path("y2")}}});
  ASSERT_TRUE(second.ok()) << second.error().to_string();
  EXPECT_EQ(got("y1"), got("y2"));
  ASSERT_EQ(first->result_names.size(), 1u);  // one kernel
  EXPECT_EQ(first->result_names, second->result_names);
}

TEST_F(StackRun, ErrorNamesTheStackFile) {
  ASSERT_TRUE(put("up", 0, {56, 24}).ok());
  EXPECT_EQ(run_with(one, {.in = {{"up", path("up")}}}).error().to_string(),
            "'up' in --in is a part of 'w'\n  hint: pass the whole tensor: --in w=FILE.npy\n");
  EXPECT_EQ(run_with(one, {.in = {{"up2", path("up")}}}).error().to_string(),
            "unknown tensor 'up2' in --in; expected an input, one of x, w, b\n");
  EXPECT_EQ(run_with(one, {.out = {{"w", path("up")}}}).error().to_string(),
            "unknown tensor 'w' in --out; expected a result, one of u, g, y\n");
  const auto small = run_with(one, {.in = {{"w", path("up")}}});
  ASSERT_FALSE(small.ok());
  EXPECT_NE(small.error().to_string().find("(112, 24)"), std::string::npos) << small.error().to_string();
}

TEST(StackPlan, EqualsThePlanOfSeparateMatrices) {
  for (const char* on : {"h200", "cpu"}) {
    std::vector<PlannedProgram> plans;
    std::vector<Explanation> explanations;
    for (std::string text : {one, two}) {
      for (std::size_t at = 0; (at = text.find("f32", at)) != std::string::npos;) text.replace(at, 3, "bf16");
      const auto program = parse(text);
      const auto explanation = explain(*program, *find_machine(on), {{"N", 512}, {"D", 256}, {"F", 1024}});
      ASSERT_TRUE(explanation.ok()) << explanation.error().to_string();
      auto planned = predict_program(*program, *explanation);
      ASSERT_TRUE(planned.ok()) << planned.error().to_string();
      plans.push_back(*std::move(planned));
      explanations.push_back(*explanation);
    }
    ASSERT_EQ(plans[0].kernels.size(), 1u) << on;
    EXPECT_EQ(plans[1].kernels.size(), 1u);
    EXPECT_EQ(plans[0].kernels[0].plan.kernel, plans[1].kernels[0].plan.kernel);
    EXPECT_EQ(plans[0].kernels[0].traffic_bytes, plans[1].kernels[0].traffic_bytes);
    EXPECT_EQ(plans[0].predicted_s.expected, plans[1].predicted_s.expected);
    EXPECT_EQ(explanations[0].total.bytes, explanations[1].total.bytes);
    EXPECT_EQ(explanations[0].fused->bytes, explanations[1].fused->bytes);
    EXPECT_EQ(explanations[0].total.flops, explanations[1].total.flops);
  }
}

}  // namespace
}  // namespace ridge
