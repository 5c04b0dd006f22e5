#include "ridge/base/contains.h"
#include "ridge/plan/attention/recognize.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "ridge/plan/plan.h"

namespace ridge {
namespace {

using ops::AttentionBackwardProblem, ops::AttentionProblem, ops::HeadsLayout;
constexpr std::int64_t unbounded = AttentionProblem::unbounded;

struct PlannedBackward {
  Plan plan;
  std::string group_kinds() const {  // "attention attention_backward"
    std::string out;
    for (const FusionGroup& group : plan.fusion.groups) out += (out.empty() ? "" : " ") + std::string(name(group.kind));
    return out;
  }
  const PlanStep& gradients_problem() const {
    for (const PlanStep& step : plan.steps)
      if (std::holds_alternative<AttentionBackwardProblem>(step.kernel)) return step;
    ADD_FAILURE() << group_kinds();
    return plan.steps.front();
  }
  const AttentionBackwardProblem& problem() const {
    return std::get<AttentionBackwardProblem>(gradients_problem().kernel);
  }
  std::vector<std::string> boundary_reasons() const {
    std::vector<std::string> out;
    for (const FusionBoundary& boundary : plan.fusion.boundaries) out.push_back(boundary.reason);
    return out;
  }
};

PlannedBackward planned(const std::string& text, FuseOptions options = {}) {
  const Program program = parse(text).value();
  auto made = make_plan(program, program.bind_sizes({}).value(), options);
  return {std::move(made).value()};
}

struct BackwardForm {
  std::string weights = "p[B, S, H, T] = softmax(s * 0.125 over T)\n";
  std::string delta = "d[B, S, H] = sum(p * dp over T)\n";
  std::string ds = "ds[B, S, H, T] = p * (dp - d) * 0.125\n";
  std::string results = "dq: bf16[B, S, H, E] = ds * k\ndk: bf16[B, T, H, E] = ds * q\n";
  std::string values = "dv: bf16[B, T, H, E] = p * do\n";
  std::string inputs = "";
  std::int64_t low = -unbounded, high = unbounded;
  std::string text() const {
    return std::string("dims B = 2, S = 48, T = 80, H = 3, E = 64\n") +
           "q: bf16[B, S, H, E]   k: bf16[B, T, H, E]   v: bf16[B, T, H, E]\n" +
           (inputs.find("do") == std::string::npos ? "do: bf16[B, S, H, E]\n" : "") + inputs +
           "s[B, S, H, T] = q * k\n" + weights + values + "dp[B, S, H, T] = do * v\n" + delta + ds + results;
  }
};
const std::string forward = "o: bf16[B, S, H, E] = p * v\n";

TEST(AttentionBackward, EquivalentFormsAreOneKernel) {
  const BackwardForm all[] = {
      {},
      {.ds = "ds[B, S, H, T] = 0.125 * p * (dp - d)\n"},
      {.ds = "ds[B, S, H, T] = (dp - d) * p / 8\n"},
      {.weights = "p[B, S, H, T] = softmax(s / sqrt(size(E)) over T)\n",
       .ds = "ds[B, S, H, T] = p * (dp - d) * rsqrt(size(E))\n"},
      {.ds = "ds[B, S, H, T] = p * (0.125 * dp - 0.125 * d)\n"},
      {.ds = "ds[B, S, H, T] = p * (dp - d)\n",
       .results = "x[B, S, H, E] = ds * k\ny[B, T, H, E] = ds * q\n"
                  "dq: bf16[B, S, H, E] = x * 0.125\ndk: bf16[B, T, H, E] = y / 8\n"},
      {.ds = "a[B, S, H, T] = p * (dp - d)\nds[B, S, H, T] = a * 0.125\n"},
      {.delta = "w[B, S, H, T] = p * dp\nd[B, S, H] = sum(w over T)\n", .ds = "ds[B, S, H, T] = (w - p * d) * 0.125\n"},
      {.delta = "d[B, S, H] = sum(do * o over E)\n", .inputs = "o: bf16[B, S, H, E]\n"},
      {.delta = "w[B, S, H, E] = o * do\nd[B, S, H] = sum(w over E)\n", .inputs = "o: bf16[B, S, H, E]\n"},
      {.delta = "d[B, S, H] = do * o\n", .inputs = "o: bf16[B, S, H, E]\n"},
      {.weights = "p[B, S, H, T] = softmax(where(index(T) <= index(S), s * 0.125, -inf) over T)\n", .high = 0},
      {.weights = "c[B, S, H, T] = where(index(T) <= index(S), s / 8, -inf)\n"
                  "p[B, S, H, T] = softmax(where(index(T) > index(S) - 16, c, -inf) over T)\n",
       .low = -15,
       .high = 0},
      {.weights = "z[B, S, H, T] = s * 0.125\nm[B, S, H] = max(z over T)\ne[B, S, H, T] = exp(z - m)\n"
                  "l[B, S, H] = sum(e over T)\np[B, S, H, T] = e / l\n"},
      {.results = "dk: bf16[B, T, H, E] = q * ds\ndq: bf16[B, S, H, E] = k * ds\n",
       .values = "dv: bf16[B, T, H, E] = do * p\n"},
      {.results = "dq: bf16[B, H, S, E] = ds * k\ndk: bf16[H, B, T, E] = ds * q\n"},
  };
  for (const BackwardForm& one : all) {
    const PlannedBackward x = planned(one.text());
    ASSERT_EQ(x.group_kinds(), "attention_backward")
        << one.text() << fmt::format("{}", fmt::join(x.boundary_reasons(), " | "));
    EXPECT_EQ(x.problem().forward.scale, 0.125) << one.text();
    EXPECT_EQ(x.problem().forward.low, one.low) << one.text();
    EXPECT_EQ(x.problem().forward.high, one.high) << one.text();
    EXPECT_EQ(x.problem().forward.rows, 48);
    EXPECT_EQ(x.problem().forward.keys, 80);
    EXPECT_EQ(x.plan.steps.size(), 2u) << "a forward pass, for the log-sum-exp";
    const PlannedBackward both =
        planned(one.inputs.empty() ? one.text() + forward : one.text() + "y: bf16[B, S, H, E] = p * v\n");
    EXPECT_EQ(both.group_kinds(), "attention attention_backward") << one.text();
    EXPECT_EQ(both.plan.steps.size(), 2u) << one.text();
  }
}

// The backward kernel reads what the forward pass stores instead of recomputing it.
TEST(AttentionBackward, ReadsTheResultsOfTheForwardPass) {
  const BackwardForm of_o{.delta = forward + "d[B, S, H] = sum(do * o over E)\n"};
  for (const std::string& text : {BackwardForm{}.text() + forward, of_o.text()}) {
    const PlannedBackward x = planned(text);
    ASSERT_EQ(x.group_kinds(), "attention attention_backward");
    ASSERT_EQ(x.plan.steps.size(), 2u);
    const std::vector<int>&first = x.plan.steps[0].buffers, &second = x.plan.steps[1].buffers;
    ASSERT_EQ(first.size(), 5u);
    ASSERT_EQ(second.size(), 9u);
    EXPECT_EQ(second[3], first[3]) << "o";
    EXPECT_EQ(second[5], first[4]) << "the log-sum-exp";
    EXPECT_EQ(x.plan.buffers[first[4]].elements, 2 * 3 * 48);
  }
}

// do depends on o, as in any training step, so another kernel runs between the two.
TEST(AttentionBackward, RunsAfterStatementsThatReadTheForwardResult) {
  const BackwardForm x{.inputs = "w: bf16[B, S, H, E]\n"};
  std::string text = x.text();
  text.replace(text.find("do: bf16[B, S, H, E]\n"), 21, "");
  text.replace(text.find("dv:"), 0, forward + "do: bf16[B, S, H, E] = o * 2 - w\n");
  EXPECT_EQ(planned(text).group_kinds(), "attention pointwise attention_backward") << text;
}

TEST(AttentionBackward, SharesKeysAmongHeads) {
  const PlannedBackward x = planned(
      "dims B = 2, S = 48, T = 80, K = 4, G = 5, E = 128\n"
      "q: bf16[B, S, K, G, E]   k: bf16[B, T, K, E]   v: bf16[B, T, K, E]   do: bf16[B, S, K, G, E]\n"
      "s[B, S, K, G, T] = q * k\np[B, S, K, G, T] = softmax(where(index(T) <= index(S), s, -inf) over T)\n"
      "dv: bf16[B, T, K, E] = p * do\ndp[B, S, K, G, T] = do * v\nd[B, S, K, G] = sum(p * dp over T)\n"
      "ds[B, S, K, G, T] = p * (dp - d)\ndq: bf16[B, S, K, G, E] = ds * k\ndk: bf16[B, T, K, E] = ds * q");
  ASSERT_EQ(x.group_kinds(), "attention_backward");
  EXPECT_EQ(x.problem().forward.rows, 48);
  EXPECT_EQ(x.problem().forward.heads / x.problem().forward.key_heads, 5);
  EXPECT_EQ(x.problem().dk.row, 4 * 128);
  EXPECT_EQ(x.problem().dq, (HeadsLayout{48 * 20 * 128, 128, 20 * 128}));
}

TEST(AttentionBackward, MovesOnlyItsOperands) {
  const std::int64_t q = 2 * 48 * 3 * 64 * 2, k = 2 * 80 * 3 * 64 * 2, s = 2 * 48 * 3 * 80 * 2, d = 2 * 48 * 3 * 2;
  const FusionGroup alone = planned(BackwardForm{}.text()).plan.fusion.groups[0];
  EXPECT_EQ(alone.bytes_after, 3 * q + 4 * k);
  EXPECT_EQ(alone.bytes_before,
            (q + k + s) + 2 * s + (s + q + k) + (q + k + s) + (2 * s + d) + (3 * s + d) + (s + k + q) + (s + q + k));
  const std::vector<FusionGroup> both = planned(BackwardForm{}.text() + forward).plan.fusion.groups;
  EXPECT_EQ(both[0].bytes_after, 2 * q + 2 * k);
  EXPECT_EQ(both[0].bytes_before, (q + k + s) + 2 * s + (s + k + q));
  EXPECT_EQ(both[1].bytes_after, 4 * q + 4 * k) << "and o";
  EXPECT_EQ(both[1].bytes_before, alone.bytes_before - (q + k + s) - 2 * s);
}

struct BackwardMismatch {
  std::string text, why;
  FuseOptions options = {};
};

TEST(AttentionBackward, ReportsWhySimilarProgramsAreNotFused) {
  const std::string no_slopes = "ds is not the softmax times (its gradient dp less the mean of that by the softmax)";
  const std::string no_softmax =
      "ds is not computed from the softmax of s times a number, masked by a comparison of two indices";
  const std::string stored = " is also needed elsewhere, and the fused attention backward kernel does not store it";
  const BackwardMismatch all[] = {
      {BackwardForm{.ds = "ds[B, S, H, T] = p * (dp - d)\n"}.text(),
       "dq is the gradient times 8, but the scores s are scaled by 0.125"},
      {BackwardForm{.ds = "ds[B, S, H, T] = p * (dp - d) * -0.125\n"}.text(),
       "dq is the gradient times -1, but the scores s are scaled by 0.125"},
      {BackwardForm{.ds = "ds[B, S, H, T] = p * dp * 0.125\n"}.text() + "z: bf16[B, S, H] = d * 1\n", no_slopes},
      {BackwardForm{.delta = "d[B, S, H] = mean(p * dp over T)\n"}.text(), no_slopes},
      {BackwardForm{.ds = "ds[B, S, H, T] = p * (dp + d) * 0.125\n"}.text(), no_slopes},
      {BackwardForm{.delta = "p2[B, S, H, T] = softmax(s * 0.25 over T)\nd[B, S, H] = sum(p2 * dp over T)\n"}.text(),
       no_slopes},
      {BackwardForm{.weights = "p[B, S, H, T] = softmax(s * 0.125 over T)\np2[B, S, H, T] = softmax(s * 0.25 over T)\n",
                    .values = "dv: bf16[B, T, H, E] = p2 * do\n"}
           .text(),
       "no statement computes the product of p and do, the gradient of v"},
      {BackwardForm{.weights = "p[B, S, H, T] = rmsnorm(s over T)\n"}.text(), no_softmax},
      {BackwardForm{.weights = "p[B, S, H, T] = softmax(s * 0.125 over S)\n"}.text(), no_slopes},
      {BackwardForm{.weights = "p[B, S, H, T] = softmax(where(index(T) < 50, s * 0.125, -inf) over T)\n"}.text(),
       no_softmax},
      {BackwardForm{.weights = "n: int32[B]\np[B, S, H, T] = softmax(where(index(T) < n, s * 0.125, -inf) over T)\n"}
           .text(),
       no_softmax},
      {"dims S = (40, 8), T = S, E = 64\nq: f32[S, E]   k: f32[T, E]   v: f32[T, E]   do: f32[S, E]\ns[S, T] = q * k\n"
       "p[S, T] = softmax(where(sequence(S) == sequence(T), s, -inf) over T)\ndv: f32[T, E] = p * do\n"
       "dp[S, T] = do * v\nd[S] = sum(p * dp over T)\nds[S, T] = p * (dp - d)\ndq: f32[S, E] = ds * k\n"
       "dk: f32[T, E] = ds * q",
       no_softmax},
      {BackwardForm{.values = "dv: bf16[B, T, H, E] = s * do\n"}.text(),
       "no statement computes the product of p and do, the gradient of v"},
      {BackwardForm{}.text() + "z: bf16[B, S, H, T] = ds + 1\n", "'ds'" + stored},
      {BackwardForm{}.text() + "z: bf16[B, S, H] = d + 1\n", "'d'" + stored},
      {BackwardForm{.weights = "p[B, S, H, T] = softmax(30 * tanh(s / 240) over T)\n"}.text(),
       "attention's gradients: expected scores without a cap in attention's gradients, found 30"},
      {BackwardForm{.values = "dv: f32[B, T, H, E] = p * do\n"}.text(), "q is bf16, dv is f32"},
      {"dims S = 48, T = 80, E = 320\nq: f32[S, E]   k: f32[T, E]   v: f32[T, E]   do: f32[S, E]\ns[S, T] = q * k\n"
       "p[S, T] = softmax(s over T)\ndv: f32[T, E] = p * do\ndp[S, T] = do * v\nd[S] = sum(p * dp over T)\n"
       "ds[S, T] = p * (dp - d)\ndq: f32[S, E] = ds * k\ndk: f32[T, E] = ds * q",
       "attention's gradients: expected heads of 1 … 256 elements, found 320"},
  };
  for (const BackwardMismatch& one : all) {
    const PlannedBackward x = planned(one.text, one.options);
    EXPECT_EQ(x.group_kinds().find("attention_backward"), std::string::npos) << one.text;
    const std::vector<std::string> reasons = x.boundary_reasons();
    EXPECT_TRUE(contains(reasons, one.why)) << one.text << "\nfound: " << fmt::format("{}", fmt::join(reasons, " | "));
  }
}

TEST(AttentionBackward, IsOneKernelOnADevice) {
  EXPECT_EQ(planned(BackwardForm{}.text() + forward, {.target = Target::cuda}).group_kinds(),
            "attention attention_backward");
}

// If another statement reads the softmax, another kernel stores it, and the backward kernel still recomputes it.
TEST(AttentionBackward, AnotherKernelStoresASoftmaxThatIsReadElsewhere) {
  EXPECT_EQ(planned(BackwardForm{}.text() + "z: bf16[B, S, H, T] = p + 1\n").group_kinds(),
            "product rows attention_backward");
  const PlannedBackward kept = planned(BackwardForm{}.text(), {.stored_tensors = {5}});
  EXPECT_EQ(kept.group_kinds(), "product rows attention_backward");
  EXPECT_GT(kept.plan.buffers[5].elements, 0);
}

TEST(AttentionBackward, IsNotFusedIfAnIntermediateMustBeStored) {
  EXPECT_EQ(planned(BackwardForm{}.text(), {.fuse = false}).group_kinds().find("attention"), std::string::npos);
  EXPECT_EQ(planned(BackwardForm{}.text(), {.stored_tensors = {7}}).group_kinds().find("attention"), std::string::npos);
}

}  // namespace
}  // namespace ridge
