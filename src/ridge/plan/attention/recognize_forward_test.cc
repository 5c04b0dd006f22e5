#include "ridge/base/contains.h"
#include "ridge/plan/attention/recognize.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>

#include "ridge/plan/plan.h"

namespace ridge {
namespace {

using ops::AttentionProblem, ops::HeadsLayout;
constexpr std::int64_t unbounded = AttentionProblem::unbounded;

struct PlannedAttention {
  Plan plan;
  std::string group_kinds() const {  // "attention", "product rows product"
    std::string out;
    for (const FusionGroup& group : plan.fusion.groups) out += (out.empty() ? "" : " ") + std::string(name(group.kind));
    return out;
  }
  AttentionProblem attention() const {
    for (const PlanStep& step : plan.steps)
      if (const auto* found = std::get_if<AttentionProblem>(&step.kernel)) return *found;
    return {};
  }
  std::string last_boundary_reason() const {
    return plan.fusion.boundaries.empty() ? "" : plan.fusion.boundaries.back().reason;
  }
};

PlannedAttention planned(const std::string& text, FuseOptions options = {.target = Target::cuda}) {
  const Program program = parse(text).value();
  auto made = make_plan(program, program.bind_sizes({}).value(), options);
  return {std::move(made).value()};
}

const std::string inputs =
    "dims B = 2, S = 48, T = 80, H = 3, E = 64\n"
    "q: bf16[B, S, H, E]   k: bf16[B, T, H, E]   v: bf16[B, T, H, E]\n";
const std::string scores = "s[B, S, H, T] = q * k\n", result = "o: bf16[B, S, H, E] = p * v\n";
std::string around(const std::string& weights) { return inputs + scores + weights + "\n" + result; }

struct AttentionForm {
  std::string text;
  double scale = 0.125;
  std::int64_t low = -unbounded, high = unbounded;
};

TEST(Attention, EquivalentFormsAreOneKernel) {
  const AttentionForm all[] = {
      {around("p[B, S, H, T] = softmax(s * 0.125 over T)")},
      {around("p[B, S, H, T] = softmax(0.125 * s over T)")},
      {around("p[B, S, H, T] = softmax(s / 8 over T)")},
      {around("p[B, S, H, T] = softmax(s / sqrt(size(E)) over T)")},
      {around("p[B, S, H, T] = softmax(s * rsqrt(size(E)) over T)")},
      {around("z[B, S, H, T] = s * 0.25\np[B, S, H, T] = softmax(z * 0.5 over T)")},
      {around("p[B, S, H, T] = softmax(s over T)"), 1},
      {around("p[B, S, H, T] = softmax(where(index(T) <= index(S), s * 0.125, -inf) over T)"), 0.125, -unbounded, 0},
      {around("p[B, S, H, T] = softmax(where(index(S) >= index(T), s, -inf) * 0.125 over T)"), 0.125, -unbounded, 0},
      {around("p[B, S, H, T] = softmax(where(index(T) < index(S) + 33, s * 0.125, -inf) over T)"), 0.125, -unbounded,
       32},
      {around("p[B, S, H, T] = softmax(s * 0.125 + where(index(T) <= index(S), 0, -inf) over T)"), 0.125, -unbounded,
       0},
      {around("p[B, S, H, T] = softmax(where(index(T) > index(S), 0, -inf) + s / 8 over T)"), 0.125, 1, unbounded},
      {around("c[B, S, H, T] = where(index(T) <= index(S), s / 8, -inf)\n"
              "p[B, S, H, T] = softmax(where(index(T) > index(S) - 16, c, -inf) over T)"),
       0.125, -15, 0},
      {around("z[B, S, H, T] = s * 0.125\nm[B, S, H] = max(z over T)\ne[B, S, H, T] = exp(z - m)\n"
              "l[B, S, H] = sum(e over T)\np[B, S, H, T] = e / l")},
      {around("z[B, S, H, T] = where(index(T) <= index(S), s * 0.125, -inf)\nm[B, S, H] = max(z over T)\n"
              "e[B, S, H, T] = exp(z - m)\nl[B, S, H] = sum(e over T)\np[B, S, H, T] = e * (1 / l)"),
       0.125, -unbounded, 0},
      {around("p[B, S, H, T] = softmax(30 * tanh(s * 0.125 / 30) over T)")},
      {around("p[B, S, H, T] = softmax(where(index(T) <= index(S), tanh(s / 240) * 30, -inf) over T)"), 0.125,
       -unbounded, 0},
      {inputs + "s[B, S, H, T] = k * q\np[B, S, H, T] = softmax(s * 0.125 over T)\no: bf16[B, S, H, E] = v * p\n"},
      {inputs + "s[H, T, B, S] = q * k\np[B, H, S, T] = softmax(s * 0.125 over T)\no: bf16[B, H, S, E] = p * v\n"},
  };
  for (const AttentionForm& one : all) {
    const PlannedAttention x = planned(one.text);
    EXPECT_EQ(x.group_kinds(), "attention") << one.text << x.last_boundary_reason();
    EXPECT_EQ(x.attention().scale, one.scale) << one.text;
    EXPECT_EQ(x.attention().cap, one.text.find("tanh") == std::string::npos ? 0 : 30) << one.text;
    const PlannedAttention here = planned(one.text, {.target = Target::cpu});
    EXPECT_EQ(here.group_kinds(), "attention") << one.text << here.last_boundary_reason();
    EXPECT_EQ(x.attention().low, one.low) << one.text;
    EXPECT_EQ(x.attention().high, one.high) << one.text;
    EXPECT_EQ(x.attention().rows, 48) << one.text;
    EXPECT_EQ(x.attention().keys, 80) << one.text;
  }
}

struct LengthMask {
  std::string mask;
  AttentionProblem::Lengths lengths = {.length_offset = 0};
  std::int64_t low = -unbounded, high = unbounded;
};

TEST(Attention, RecognizesSequenceLengths) {
  const LengthMask all[] = {
      {"index(T) < n"},
      {"n > index(T)"},
      {"index(T) <= n - 1"},
      {"index(T) + 1 <= n"},
      {"index(T) - n < 0"},
      {"index(T) <= n", {.length_offset = 1}},
      {"index(T) < n + 3", {.length_offset = 3}},
      {"(index(T) < n) * (index(T) <= index(S))", {.length_offset = 0}, -unbounded, 0},
      {"index(T) <= index(S) + n - size(S)", {.length_offset = unbounded, .high_from_length = true}, -unbounded, -48},
      {"index(T) < index(S) + n - 47", {.length_offset = unbounded, .high_from_length = true}, -unbounded, -48},
      {"index(T) - index(S) <= n - size(S)", {.length_offset = unbounded, .high_from_length = true}, -unbounded, -48},
      {"n - size(S) >= index(T) - index(S)", {.length_offset = unbounded, .high_from_length = true}, -unbounded, -48},
      {"(index(T) <= index(S) + n - size(S)) * (index(T) < n)",
       {.length_offset = 0, .high_from_length = true},
       -unbounded,
       -48},
      {"(index(T) <= index(S) + n - size(S)) * (index(T) > index(S) + n - size(S) - 16)",
       {.length_offset = unbounded, .low_from_length = true, .high_from_length = true},
       -63,
       -48},
      {"(index(T) < n) * (index(S) - index(T) < 16)", {.length_offset = 0}, -15, unbounded},
  };
  for (const LengthMask& one : all)
    for (const Target target : {Target::cpu, Target::cuda}) {
      const PlannedAttention x = planned(inputs + "n: int32[B]\n" + scores + "p[B, S, H, T] = softmax(where(" +
                                             one.mask + ", s * 0.125, -inf) over T)\n" + result,
                                         {.target = target});
      EXPECT_EQ(x.group_kinds(), "attention") << one.mask << ": " << x.last_boundary_reason();
      ASSERT_EQ(x.plan.steps.size(), 1u) << one.mask;
      EXPECT_EQ(x.plan.steps[0].buffers, (std::vector<int>{0, 1, 2, 6, -1, 3})) << one.mask;
      const AttentionProblem p = x.attention();
      EXPECT_EQ(p.lengths, std::optional(one.lengths)) << one.mask;
      EXPECT_EQ(p.low, one.low) << one.mask;
      EXPECT_EQ(p.high, one.high) << one.mask;
      EXPECT_TRUE(p.moves_with_rows) << one.mask;
      EXPECT_EQ(p.outer, 2) << one.mask;
      EXPECT_EQ(p.heads, 3) << one.mask;
    }
}

// The width of a window as a number or as the size of a tensor's dimension; no tensor has W, so its size is not known.
TEST(Attention, RecognizesSizesOfTensorDimensionsOnly) {
  const auto plan_of = [](const std::string& width) {
    return planned(
        "dims B = 2, T = 80, H = 4, E = 16, W = 16\nq: bf16[B, H, E]   k: bf16[B, T, H, E]   v: bf16[B, T, H, E]\n"
        "s[B, H, T] = q * k\np[B, H, T] = softmax(where(index(T) >= size(T) - " +
        width + ", s, -inf) over T)\no: bf16[B, H, E] = p * v");
  };
  EXPECT_EQ(plan_of("16").attention().low, 64);
  EXPECT_EQ(plan_of("size(E)").attention().low, 64);
  EXPECT_EQ(plan_of("size(W)").group_kinds().find("attention"), std::string::npos);
}

// Decoding: a row of each head, and a window that ends with the sequence.
TEST(Attention, MasksOneRowByItsSequenceLength) {
  const AttentionProblem x =
      planned(
          "dims B = 2, T = 80, K = 4, G = 5, E = 128\n"
          "q: bf16[B, K, G, E]   k: bf16[B, T, K, E]   v: bf16[B, T, K, E]   n: int32[B]\n"
          "s[B, K, G, T] = q * k\n"
          "p[B, K, G, T] = softmax(where((index(T) < n) * (index(T) >= n - 16), s, -inf) over T)\n"
          "o: bf16[B, K, G, E] = p * v")
          .attention();
  EXPECT_EQ(x.lengths, std::optional(AttentionProblem::Lengths{.length_offset = 0, .low_from_length = true}));
  EXPECT_EQ(x.low, -16);
  EXPECT_FALSE(x.moves_with_rows);
  EXPECT_EQ(x.outer, 2);
  EXPECT_EQ(x.outer * x.heads * x.rows, 2 * 4 * 5);
}

// New rows of sequences with a cache. With a single row, whose index is 0, four heads become the rows of a tile.
TEST(Attention, DecodesOneOrSeveralRows) {
  const auto decoded = [](int rows) {
    return planned("dims B = 3, S = " + std::to_string(rows) +
                   ", T = 300, K = 2, G = 4, E = 64\n"
                   "q: bf16[B, S, K, G, E]   k: bf16[B, T, K, E]   v: bf16[B, T, K, E]   n: int32[B]\n"
                   "s[B, S, K, G, T] = q * k\n"
                   "p[B, S, K, G, T] = softmax(where(index(T) <= index(S) + n - size(S), s, -inf) over T)\n"
                   "o: bf16[B, S, K, G, E] = p * v");
  };
  const PlannedAttention one = decoded(1), some = decoded(5);
  EXPECT_EQ(one.group_kinds(), "attention") << one.last_boundary_reason();
  EXPECT_EQ(one.attention().lengths, std::optional(AttentionProblem::Lengths{.length_offset = 0}));
  EXPECT_EQ(one.attention().rows, 4);
  EXPECT_EQ(one.attention().heads, 2);
  EXPECT_EQ(some.group_kinds(), "attention") << some.last_boundary_reason();
  EXPECT_EQ(some.attention().lengths,
            std::optional(AttentionProblem::Lengths{.length_offset = unbounded, .high_from_length = true}));
  EXPECT_EQ(some.attention().high, -5);
  EXPECT_EQ(some.attention().rows, 5);
  EXPECT_EQ(some.attention().heads, 8);
  EXPECT_EQ(some.attention().key_heads, 2);
}

TEST(Attention, RecognizesPackedSequences) {
  const auto packed = [](const std::string& keys, const std::string& mask) {
    return planned("dims S = (70, 1, 200), T = " + keys +
                   ", H = 4, E = 64\nq: bf16[S, H, E]   k: bf16[T, H, E]   v: bf16[T, H, E]\n"
                   "s[S, H, T] = q * k\np[S, H, T] = softmax(where(" +
                   mask + ", s, -inf) over T)\no: bf16[S, H, E] = p * v");
  };
  const PlannedAttention x = packed("S", "(sequence(S) == sequence(T)) * (index(T) <= index(S))");
  ASSERT_EQ(x.group_kinds(), "attention") << x.last_boundary_reason();
  const AttentionProblem p = x.attention();
  EXPECT_EQ(p.packed, std::optional(AttentionProblem::Packed{271, 271}));
  EXPECT_EQ(p.lengths, std::optional(AttentionProblem::Lengths{.length_offset = 0}));
  EXPECT_EQ(p.outer, 3);
  EXPECT_EQ(p.rows, 200);
  EXPECT_EQ(p.keys, 200);
  EXPECT_EQ(p.high, 0);
  ASSERT_EQ(x.plan.steps.size(), 1u);
  EXPECT_EQ(x.plan.steps[0].buffers, (std::vector<int>{0, 1, 2, 5, -1, -1, 6, 6}));
  const PlanBuffer& starts = x.plan.buffers[6];
  EXPECT_TRUE(starts.holds_indices);
  std::vector<std::int32_t> found;
  for (const float each : index_values(starts)) found.push_back(std::bit_cast<std::int32_t>(each));
  EXPECT_EQ(found, (std::vector<std::int32_t>{0, 70, 71, 271}));
  const PlannedAttention cross = packed("(5, 150, 40)", "sequence(T) == sequence(S)");
  EXPECT_EQ(cross.attention().packed, std::optional(AttentionProblem::Packed{271, 195}));
  EXPECT_EQ(cross.attention().keys, 150);
  EXPECT_EQ(cross.plan.steps[0].buffers, (std::vector<int>{0, 1, 2, 5, -1, -1, 6, 7}));
  EXPECT_EQ(packed("(5, 150, 40)", "(sequence(S) == sequence(T)) * (index(T) <= index(S))").last_boundary_reason(),
            "the mask compares T with S, whose sequences start at different positions");
  EXPECT_EQ(packed("(5, 190)", "sequence(S) == sequence(T)").last_boundary_reason(), "S has 3 sequences, T has 2");
}

std::string in_pages(const std::string& gathers, const std::string& weights) {
  return "dims B = 3, S = 5, P = 17, M = 4, R = 16, K = 2, G = 3, E = 64\n"
         "q: bf16[B, S, K, G, E]   k: bf16[P, R, K, E]   v: bf16[P, R, K, E]   n: int32[B]   list: int32[B, M]\n" +
         gathers + "s[B, S, K, G, M, R] = q * a\np[B, S, K, G, M, R] = softmax(" + weights +
         " over M, R)\no: bf16[B, S, K, G, E] = p * b";
}

TEST(Attention, RecognizesPagedKeysAndValues) {
  const std::string gathers = "a[B, M, R, K, E] = gather(k, list over P)\nb[B, M, R, K, E] = gather(v, list over P)\n";
  for (const Target target : {Target::cpu, Target::cuda}) {
    const PlannedAttention x =
        planned(in_pages(gathers, "where(index(M) * size(R) + index(R) <= index(S) + n - size(S), s, -inf)"),
                {.target = target});
    ASSERT_EQ(x.group_kinds(), "attention") << x.last_boundary_reason();
    const AttentionProblem p = x.attention();
    EXPECT_EQ(p.pages, std::optional(AttentionProblem::Pages{16, 17}));
    EXPECT_EQ(p.lengths,
              std::optional(AttentionProblem::Lengths{.length_offset = unbounded, .high_from_length = true}));
    EXPECT_EQ(p.high, -5);
    EXPECT_EQ(p.keys, 64);
    EXPECT_EQ(p.outer, 3);
    EXPECT_EQ(p.heads, 6);
    EXPECT_EQ(p.k, (HeadsLayout{16 * 2 * 64, 64, 2 * 64}));
    EXPECT_EQ(p.v, p.k);
    ASSERT_EQ(x.plan.steps.size(), 1u);
    EXPECT_EQ(x.plan.steps[0].buffers, (std::vector<int>{0, 1, 2, 9, -1, 3, -1, -1, 4}));
    const PlannedAttention all = planned(in_pages(gathers, "s * 0.5"), {.target = target});
    EXPECT_EQ(all.plan.steps[0].buffers, (std::vector<int>{0, 1, 2, 9, -1, -1, -1, -1, 4}));
    EXPECT_EQ(all.attention().lengths, std::nullopt);
  }
  const FuseOptions cpu{.target = Target::cpu};
  const PlannedAttention apart = planned(in_pages(gathers, "where(index(M) * 15 + index(R) < n, s, -inf)"), cpu);
  EXPECT_EQ(apart.group_kinds(), "loops loops product rows product");
  const std::string other = "a[B, M, R, K, E] = gather(k, list over P)\nb[B, M, R, K, E] = gather(v, other over P)\n";
  EXPECT_EQ(planned("other: int32[B, M]\n" + in_pages(other, "s"), cpu).group_kinds().find("attention"),
            std::string::npos);
  EXPECT_EQ(make_plan(parse(in_pages(gathers, "gelu(s)")).value(), {}, {.target = Target::cuda}).ok(), false);
}

TEST(Attention, ReportsUnsupportedLengths) {
  const auto last_boundary_reason = [](const std::string& declared, const std::string& mask) {
    const PlannedAttention x = planned(inputs + declared + "\n" + scores + "p[B, S, H, T] = softmax(where(" + mask +
                                           ", s * 0.125, -inf) over T)\n" + result,
                                       {.target = Target::cpu});
    EXPECT_EQ(x.group_kinds().find("attention"), std::string::npos) << mask;
    return x.last_boundary_reason();
  };
  const std::string no_softmax =
      "p is not the softmax over T of s times a number, masked by a comparison of two indices";
  EXPECT_EQ(last_boundary_reason("n: f32[B]", "index(T) < n"), no_softmax);
  EXPECT_EQ(last_boundary_reason("n: int32[B]   m: int32[B]", "(index(T) < n) * (index(T) <= index(S) + m - size(S))"),
            no_softmax);
  EXPECT_EQ(last_boundary_reason("n: int32[B]", "(index(T) <= index(S)) * (index(T) <= index(S) + n - size(S))"),
            no_softmax);
  EXPECT_EQ(last_boundary_reason("n: int32[B]", "index(T) < 2 * n"), no_softmax);
  EXPECT_EQ(last_boundary_reason("n: int32[B]", "(index(T) <= index(S)) * (index(T) >= n - 16)"),
            "one limit of the mask depends on S, and the other does not");
  EXPECT_EQ(last_boundary_reason("n: int32[S]", "index(T) < n"),
            "n differs along S, which is not a dimension of both q and k");
}

TEST(Attention, UsesTheStridesOfItsOperands) {
  const AttentionProblem x = planned(around("p[B, S, H, T] = softmax(s * 0.125 over T)")).attention();
  EXPECT_EQ(x.q, (HeadsLayout{48 * 3 * 64, 64, 3 * 64}));
  EXPECT_EQ(x.k, (HeadsLayout{80 * 3 * 64, 64, 3 * 64}));
  EXPECT_EQ(x.o, x.q);
  EXPECT_EQ(x.outer * x.heads, 6);
  const AttentionProblem turned = planned(
                                      "dims B = 2, S = 48, T = 80, H = 3, E = 64\n"
                                      "q: f16[B, H, S, E]   k: f16[B, H, T, E]   v: f16[B, H, T, E]\n"
                                      "s[B, H, S, T] = q * k\np[B, H, S, T] = softmax(s over T)\n"
                                      "o: f16[B, S, H, E] = p * v")
                                      .attention();
  EXPECT_EQ(turned.dtype, DType::f16);
  EXPECT_EQ(turned.outer * turned.heads, 6);
  EXPECT_EQ(turned.q.row, 64);
  EXPECT_EQ(turned.o.row, 3 * 64);
}

TEST(Attention, SharesKeysAmongHeads) {
  const AttentionProblem x = planned(
                                 "dims B = 2, S = 48, T = 80, K = 4, G = 5, E = 128\n"
                                 "q: bf16[B, S, K, G, E]   k: bf16[B, T, K, E]   v: bf16[B, T, K, E]\n"
                                 "s[B, S, K, G, T] = q * k\n"
                                 "p[B, S, K, G, T] = softmax(where(index(T) <= index(S), s, -inf) over T)\n"
                                 "o: bf16[B, S, K, G, E] = p * v")
                                 .attention();
  EXPECT_EQ(x.rows, 48);
  EXPECT_EQ(x.heads / x.key_heads, 5);
  EXPECT_EQ(x.outer * x.key_heads, 8);
}

TEST(Attention, MovesOnlyItsOperands) {
  const PlannedAttention x = planned(around("p[B, S, H, T] = softmax(s over T)"));
  const std::int64_t q = 2 * 48 * 3 * 64 * 2, k = 2 * 80 * 3 * 64 * 2, s = 2 * 48 * 3 * 80 * 2;
  EXPECT_EQ(x.plan.fusion.groups[0].bytes_after, 2 * q + 2 * k);
  EXPECT_EQ(x.plan.fusion.groups[0].bytes_before, 2 * q + 2 * k + 4 * s);
  EXPECT_EQ(x.plan.memory_bytes, 2 * q + 2 * k);
}

struct AttentionMismatch {
  std::string text, why;
};

TEST(Attention, ReportsWhySimilarProgramsAreNotFused) {
  const std::string no_softmax =
      "p is not the softmax over T of s times a number, masked by a comparison of two indices";
  const AttentionMismatch all[] = {
      {around("p[B, S, H, T] = softmax(s over H)"), no_softmax},
      {around("p[B, S, H, T] = softmax(s * -0.125 over T)"), no_softmax},
      {around("p[B, S, H, T] = softmax(where(index(T) <= index(S), s, 0) over T)"), no_softmax},
      {around("p[B, S, H, T] = softmax(where(index(T) <= index(S), s, -inf) * -1 over T)"), no_softmax},
      {around("p[B, S, H, T] = softmax(gelu(s) over T)"), no_softmax},
      {around("p[B, S, H, T] = rmsnorm(s over T)"), no_softmax},
      {around("z[B, S, H, T] = s * 0.5\nm[B, S, H] = max(s over T)\ne[B, S, H, T] = exp(z - m)\n"
              "l[B, S, H] = sum(e over T)\np[B, S, H, T] = e / l"),
       no_softmax},
      {around("p[B, S, H, T] = softmax(s over T) * 2"), no_softmax},
      {inputs + "s: f32[B, S, H, T] = q * k\np[B, S, H, T] = softmax(s * 0.125 over T)\n" + result,
       "'s' is also needed elsewhere, and the fused attention kernel does not store it"},
      {around("p: bf16[B, S, H, T] = softmax(s over T)") + "y: bf16[B, S, H, T] = p + 1\n",
       "'p' is also needed elsewhere, and the fused attention kernel does not store it"},
      {"dims S = 48, T = 80, E = 64\nq: f32[S, E]   k: f32[T, E]   v: f32[T, E]\ns[S, T] = q * k\n"
       "p[S, T] = softmax(s over T)\no: f32[S, E] = p * v",
       "attention: expected bf16 or f16, found f32"},
      {"dims S = 48, T = 80, E = 320\nq: bf16[S, E]   k: bf16[T, E]   v: bf16[T, E]\ns[S, T] = q * k\n"
       "p[S, T] = softmax(s over T)\no: bf16[S, E] = p * v",
       "attention: expected heads of 8 … 256 elements, a multiple of 8, found 320"},
      {"dims S = 48, T = 80, E = 64, F = 32\nq: bf16[S, E]   k: bf16[T, E]   v: bf16[T, F]\ns[S, T] = q * k\n"
       "p[S, T] = softmax(s over T)\no: bf16[S, F] = p * v",
       "q, k, v and o are not laid out as heads of contiguous rows"},
  };
  for (const AttentionMismatch& one : all) {
    const PlannedAttention x = planned(one.text);
    EXPECT_EQ(x.group_kinds().find("attention"), std::string::npos) << one.text;
    std::vector<std::string> reasons;
    for (const FusionBoundary& boundary : x.plan.fusion.boundaries) reasons.push_back(boundary.reason);
    EXPECT_TRUE(contains(reasons, one.why)) << one.text << "\nfound: " << fmt::format("{}", fmt::join(reasons, " | "));
  }
}

// A CPU takes f32 and heads of any size up to 256; wider ones run as single kernels.
TEST(Attention, CpuRejectsOnlyWideHeads) {
  const auto text = [](int width) {
    return "dims S = 48, T = 80, E = " + std::to_string(width) +
           "\nq: f32[S, E]   k: f32[T, E]   v: f32[T, E]\ns[S, T] = q * k\np[S, T] = softmax(s over T)\n"
           "o: f32[S, E] = p * v";
  };
  const FuseOptions cpu{.target = Target::cpu};
  EXPECT_EQ(planned(text(37), cpu).group_kinds(), "attention");
  EXPECT_EQ(planned(text(256), cpu).group_kinds(), "attention");
  EXPECT_EQ(planned(text(257), cpu).group_kinds().find("attention"), std::string::npos);
}

TEST(Attention, IsNotFusedWithoutEpiloguesOrIfStored) {
  const std::string text = around("p[B, S, H, T] = softmax(s over T)");
  EXPECT_EQ(planned(text, {.target = Target::cpu, .fuse = false}).group_kinds(), "product rows product");
  EXPECT_EQ(planned(text, {.target = Target::cuda, .fuse = false}).group_kinds(), "product rows product");
  EXPECT_EQ(planned(text, {.target = Target::cuda, .fuse_epilogues = false}).group_kinds(), "product rows product");
  EXPECT_EQ(planned(text, {.target = Target::cuda, .stored_tensors = {4}}).group_kinds(), "product rows product");
}

}  // namespace
}  // namespace ridge
