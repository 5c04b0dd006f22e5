#include "ridge/plan/advise.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ridge/ops/fitted.h"

namespace ridge {
namespace {

Result<AdviceList> make_advice_for(const std::string& text, const Bindings& dims, const std::string& on,
                                   bool fuse = true) {
  RIDGE_TRY(program, parse(text));
  RIDGE_TRY(explanation, explain(program, *find_machine(on), dims));
  return make_advice(program, explanation, {.fuse = fuse});
}

const Advice* advice_of_kind(const AdviceList& all, const std::string& name) {
  for (const Advice& each : all.advice)
    if (each.kind == name) return &each;
  return nullptr;
}

constexpr const char* three = "a: bf16[M, K]   b: bf16[K, L]   c: bf16[L, N]\nt[M, L] = a * b\ny: bf16[M, N] = t * c";

TEST(Advise, ReordersAProductOfThreeMatrices) {
  const Bindings thin{{"M", 4096}, {"K", 4096}, {"L", 4096}, {"N", 16}};
  const auto all = make_advice_for(three, thin, "h200");
  ASSERT_TRUE(all) << all.error().to_string();
  const Advice* const found = advice_of_kind(*all, "order");
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->description, "multiply b * c first, then a");
  EXPECT_EQ(found->variant,
            "dims M = 4096, K = 4096, L = 4096, N = 16\na: bf16[M, K]\nb: bf16[K, L]\nc: bf16[L, N]\nt[K, N] = b * c\n"
            "y: bf16[M, N] = a * t\n");
  EXPECT_GT(found->gain_s.low, 0.5 * all->predicted_s.expected);
  EXPECT_LT(found->gain_s.high, all->predicted_s.expected);
  const auto ordered = make_advice_for(found->variant, {}, "h200");
  ASSERT_TRUE(ordered) << ordered.error().to_string();
  EXPECT_EQ(advice_of_kind(*ordered, "order"), nullptr);
  const double then = all->predicted_s.expected - found->gain_s.expected;  // median of measured gains of such advice
  EXPECT_NEAR(then, ops::find_spread("device_advice_order").middle * ordered->predicted_s.expected, 0.01 * then);
}

TEST(Advise, OmitsSmallOrUncertainGains) {
  for (const char* on : {"h200", "cpu", "a100_80"}) {
    const auto all = make_advice_for(three, {{"M", 512}, {"K", 512}, {"L", 512}, {"N", 512}}, on);
    ASSERT_TRUE(all) << all.error().to_string();
    for (const Advice& each : all->advice) {
      EXPECT_GE(each.gain_s.expected, min_gain_fraction * all->predicted_s.expected) << each.description;
      EXPECT_GT(each.gain_s.low, 0) << each.description;
      EXPECT_LE(each.gain_s.low, each.gain_s.expected) << each.description;
      EXPECT_LE(each.gain_s.expected, each.gain_s.high * (1 + 1e-12)) << each.description;
    }
    EXPECT_TRUE(std::is_sorted(all->advice.begin(), all->advice.end(),
                               [](const Advice& a, const Advice& b) { return a.gain_s.expected > b.gain_s.expected; }));
  }
}

TEST(Advise, LargerBatchGainIsPerItem) {
  const std::string layer = "x: bf16[B, D]   w: bf16[F, D]\ny: bf16[B, F] = x * w";
  const auto all = make_advice_for(layer, {{"B", 1}, {"D", 8192}, {"F", 8192}}, "h200");
  ASSERT_TRUE(all) << all.error().to_string();
  const Advice* const found = advice_of_kind(*all, "batch");
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->description, "B = 16 instead of 1");
  EXPECT_EQ(found->work_ratio, 16);
  EXPECT_GT(found->gain_s.expected, 0.8 * all->predicted_s.expected);
  EXPECT_EQ(advice_of_kind(*make_advice_for(layer, {{"B", 1024}, {"D", 8192}, {"F", 8192}}, "h200"), "batch"), nullptr);
}

TEST(Advise, SuggestsBf16IfMemoryBound) {
  const std::string chain = "x: f32[N]   z: f32[N]\ny: f32[N] = x * 2 + z";
  EXPECT_NE(advice_of_kind(*make_advice_for(chain, {{"N", 1 << 24}}, "cpu"), "dtype"), nullptr);
  const std::string sum = "x: f32[B, D]\ny: f32[B] = sum(x over D)";
  EXPECT_EQ(advice_of_kind(*make_advice_for(sum, {{"B", 4096}, {"D", 4096}}, "cpu"), "dtype"), nullptr)
      << "widening takes longer";
}

TEST(Advise, SuggestsFusionIfItIsOff) {
  const std::string layer = "x: bf16[N]\na[N] = x * 2\nb[N] = a + 1\ny: bf16[N] = exp(b)";
  const Bindings sizes{{"N", 1 << 26}};
  EXPECT_NE(advice_of_kind(*make_advice_for(layer, sizes, "h200", false), "sharing"), nullptr);
  EXPECT_EQ(advice_of_kind(*make_advice_for(layer, sizes, "h200"), "sharing"), nullptr);
}

TEST(Advise, RequiresAllSizes) {
  const auto all = make_advice_for(three, {{"M", 512}}, "h200");
  ASSERT_FALSE(all);
  EXPECT_EQ(all.error().to_string(), "expected a value for each dimension, found none for K\n  hint: -d K=16\n");
}

}  // namespace
}  // namespace ridge
