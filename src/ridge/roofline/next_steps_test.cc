// Steps and their gains on a machine of round numbers; groups of statements that may share a kernel.
#include "ridge/roofline/next_steps.h"

#include <gtest/gtest.h>

#include "ridge/roofline/groups.h"
#include "ridge/roofline/testing/test_machine.h"

namespace ridge {
namespace {

// Rates: 100 TFLOP/s bf16, 10 TFLOP/s f32, 1 TB/s, and a link of 0.1 TB/s.
Machine make_linked_machine(double bandwidth = 1e12) {
  Machine machine = testing::make_test_machine({{DType::bf16, 1e14}, {DType::int8, 2e14}}, 1e13, bandwidth);
  machine.links.push_back(
      {.name = "link", .bandwidth = testing::make_number(1e11), .latency = testing::make_number(1e-9)});
  return machine;
}

constexpr const char* attention = R"(dims S = 4096, T = 4096, H = 32, E = 128
q: bf16[H, S, E]   k: bf16[H, T, E]   v: bf16[H, T, E]
s[H, S, T] = q * k
p[H, S, T] = softmax(s over T)
o: bf16[H, S, E] = p * v)";

constexpr const char* layer = R"(dims B = 16, D = 4096, F = 16384
x: bf16[B, D]   w: bf16[D, F]   v: bf16[F, D]
u[B, F] = x * w
h[B, F] = gelu(u)
y: bf16[B, D] = h * v)";

struct Explained {
  Program program;
  Explanation explanation;
};
Explained explained(const char* text, const Bindings& given = {}, const Machine& machine = make_linked_machine()) {
  Program program = *parse(text);
  auto explanation = explain(program, machine, given);
  return {std::move(program), *std::move(explanation)};
}
std::vector<NextStep> steps(const char* text, const Bindings& given = {}) {
  const Explained e = explained(text, given);
  return suggest_next_steps(e.program, e.explanation, relevant_dimensions(e.program, e.explanation, given));
}
const NextStep* find_step(const std::vector<NextStep>& steps, const std::string& what) {
  for (const NextStep& step : steps)
    if (step.description == what) return &step;
  return nullptr;
}

TEST(NextSteps, FuseAroundStoredIntermediates) {
  const Explained e = explained(attention, {}, make_linked_machine(5e11));
  const auto found = suggest_next_steps(e.program, e.explanation, {});
  const NextStep* fuse = find_step(found, "fuse s, p, o");
  ASSERT_NE(fuse, nullptr);
  EXPECT_EQ(fuse->options, "--fuse s,p,o");
  EXPECT_DOUBLE_EQ(*fuse->time_s, *e.explanation.fused->time_lower_s);
  EXPECT_DOUBLE_EQ(*fuse->gain_s, *e.explanation.total.time_lower_s - *e.explanation.fused->time_lower_s);
}

// With a faster memory, the products of scores and output are both compute-bound: fusing them gains nothing, so softmax
// is fused with only one of them.
TEST(NextSteps, FuseOnlyIfItSavesTime) {
  EXPECT_NE(find_step(steps(attention), "fuse s, p"), nullptr);
  EXPECT_EQ(find_step(steps(attention), "fuse s, p, o"), nullptr);
}

// a and b are results: one kernel does not read them again, 16 bytes for 24 of each element.
TEST(NextSteps, FuseAroundResults) {
  const auto found = steps("dims N = 100000000\nx: f32[N]\na: f32[N] = x + 1\nb: f32[N] = a * 2\nc: f32[N] = b * 3");
  const NextStep* fuse = find_step(found, "fuse a, b, c");
  ASSERT_NE(fuse, nullptr);
  EXPECT_DOUBLE_EQ(*fuse->time_s, 16e8 / 1e12);
  EXPECT_DOUBLE_EQ(*fuse->gain_s, 8e8 / 1e12);
  const Explained adam = explained(
      "dims P = 4000000000\nw: f32[P]  m: f32[P]  v: f32[P]  g: bf16[P]\nm2: f32[P] = 0.9 * m + 0.1 * g\n"
      "v2: f32[P] = 0.999 * v + 0.001 * g * g\nw2: f32[P] = w - 0.001 * m2 / (sqrt(v2) + 1e-8)\nwb: bf16[P] = w2");
  const auto of_adam = suggest_next_steps(adam.program, adam.explanation, {});
  ASSERT_NE(find_step(of_adam, "fuse m2, v2, w2, wb"), nullptr);
  EXPECT_DOUBLE_EQ(*find_step(of_adam, "fuse m2, v2, w2, wb")->time_s, 28 * 4e9 / 1e12);
  ASSERT_TRUE(adam.explanation.fused);
  EXPECT_EQ(*adam.explanation.fused->bytes, Count{28} * 4000000000);
}

TEST(NextSteps, SuggestNarrowWeightsIfReadingThemTakesLong) {
  const auto few = steps(layer), many = steps(layer, {{"B", 4096}});
  ASSERT_NE(find_step(few, "int8 or fp8 weights"), nullptr);
  // Half of 2 * 4096 * 16384 * 2 bytes at 1 TB/s, and a small part of the rest.
  EXPECT_NEAR(*find_step(few, "int8 or fp8 weights")->gain_s, 4096.0 * 16384 * 2 / 1e12, 1e-9);
  EXPECT_EQ(*find_step(many, "int8 or fp8 weights")->gain_s, 0);
  EXPECT_EQ(find_step(steps(attention), "int8 or fp8 weights"), nullptr) << "it has none";
}

TEST(NextSteps, SplitOverChipsAlongTheBestDimension) {
  const std::vector<NextStep> found = steps(attention);
  const NextStep* chips = find_step(found, "8 chips, H split");
  ASSERT_NE(chips, nullptr);
  EXPECT_NEAR(*chips->time_s * 8, *explained(attention).explanation.total.time_lower_s, 1e-9);
  EXPECT_EQ(chips->options, "--split H=8");
}

// A split whose collectives wait longer than it saves is no step, nor one whose waiting time is not on record.
TEST(NextSteps, SuggestNoSplitThatIsSlowerOrOfUnknownLatency) {
  constexpr const char* product = R"(dims B = 4, D = 4096, F = 4097
x: bf16[B, D]   w: bf16[D, F]
y: bf16[B, F] = x * w)";
  const auto find_split = [&](std::optional<double> latency_s) {
    Machine machine = make_linked_machine();
    machine.links[0].latency.reset();
    if (latency_s) machine.links[0].latency = testing::make_number(*latency_s);
    const Explained e = explained(product, {}, machine);
    const auto found = suggest_next_steps(e.program, e.explanation, {});
    return find_step(found, "8 chips, D split") != nullptr;
  };
  EXPECT_TRUE(find_split(1e-9));
  EXPECT_FALSE(find_split(1e-5));
  EXPECT_FALSE(find_split(std::nullopt));
}

// Heads and hidden width are split over the same chips; either alone leaves half of the weights on every chip.
TEST(NextSteps, SplitTwoDimensionsThatShareNoTensor) {
  constexpr const char* two = R"(dims B = 16, D = 4096, H = 64, E = 64, F = 16384
x: bf16[B, D]   wq: bf16[D, H, E]   wo: bf16[H, E, D]   up: bf16[D, F]   down: bf16[F, D]
q[B, H, E] = x * wq
o[B, D] = q * wo
u[B, F] = o * up
y: bf16[B, D] = u * down)";
  const std::vector<NextStep> found = steps(two);
  const NextStep* chips = find_step(found, "8 chips, F and H split");
  ASSERT_NE(chips, nullptr);
  EXPECT_EQ(chips->options, "--split F=8 --split H=8");
  const Explained e = explained(two);
  DimensionSplit both{"F", 8};
  both.other_splits.push_back({"H", 8});
  EXPECT_DOUBLE_EQ(*chips->time_s, *explain(e.program, make_linked_machine(), {}, both)->total.time_lower_s);
  for (const Dimension& dim : e.program.dims)
    EXPECT_GT(*explain(e.program, make_linked_machine(), {}, DimensionSplit{dim.name, 8})->total.time_lower_s,
              *chips->time_s)
        << dim.name;
}

// The command's output for one chip's part of three statements in one kernel.
TEST(NextSteps, FuseStatementsOfOneChip) {
  const Program program = *parse(layer);
  const auto cut = explain(program, make_linked_machine(), {}, DimensionSplit{"F", 8});
  const auto fused = predict_groups(program, *cut, {{0, 1, 2}});
  ASSERT_TRUE(fused.ok());
  EXPECT_EQ(*fused->ops[0].bytes, 16 * 4096 * 2 * 2 + 2 * 4096 * 16384 / 8 * 2);
  EXPECT_DOUBLE_EQ(*fused->ops[0].bytes_sent, 16 * 4096 * 2 * 2 * 7.0 / 8);
}

TEST(NextSteps, NameTheSizeAtWhichTheLimiterChanges) {
  const auto below = steps(layer);
  ASSERT_NE(find_step(below, "B >= 104: u, y compute-bound"), nullptr) << below.back().description;
  EXPECT_EQ(find_step(below, "B >= 104: u, y compute-bound")->gain_s, std::nullopt);
  EXPECT_EQ(find_step(below, "B >= 104: u, y compute-bound")->dims, (Bindings{{"B", 104}}));
  const auto above = steps(layer, {{"B", 4096}});
  ASSERT_NE(find_step(above, "B < 104: u, y memory-bound"), nullptr) << above.back().description;
  EXPECT_EQ(find_step(above, "B < 104: u, y memory-bound")->dims, (Bindings{{"B", 103}}));
}

// One row is limited by memory; where computing takes longer, its partial sums take longer still on the link. A launch
// of 1 ms takes longer than 104 rows and than 103.
TEST(NextSteps, NameNoSizeAtWhichAThirdTimeDecides) {
  constexpr const char* product = "x: bf16[B, D_X]   w: bf16[D_X, F]\ny: bf16[B, F] = x * w";
  const Bindings sizes{{"B", 1}, {"D", 8192}, {"F", 8192}, {"X", 8}};
  const Explained e = explained((std::string("mesh X = 8\n") + product).c_str(), sizes);
  EXPECT_EQ(e.explanation.ops[0].limiter, Limiter::memory);
  EXPECT_FALSE(e.explanation.ops[0].thresholds.front().decides_limiter);
  for (const NextStep& step : suggest_next_steps(e.program, e.explanation, {"B"}))
    EXPECT_EQ(step.description.find("-bound"), std::string::npos) << step.description;
  Machine machine = make_linked_machine();
  machine.numbers["launch_s"] = testing::make_number(1e-3);
  const Explained launched = explained(layer, {{"B", 4096}}, machine);
  for (const NextStep& step : suggest_next_steps(launched.program, launched.explanation, {"B"}))
    EXPECT_EQ(step.description.find("-bound"), std::string::npos) << step.description;
}

TEST(NextSteps, UseTheGivenTimeEstimator) {
  const Explained e = explained(layer);
  const auto twice = [](const Program& program, const Explanation& seen) -> std::optional<double> {
    return 2 * *lower_bound_seconds(program, seen);
  };
  const auto once = suggest_next_steps(e.program, e.explanation, {}),
             doubled = suggest_next_steps(e.program, e.explanation, {}, twice);
  ASSERT_EQ(once.size(), doubled.size());
  for (std::size_t i = 0; i < once.size(); ++i) {
    EXPECT_EQ(once[i].description, doubled[i].description);
    EXPECT_DOUBLE_EQ(2 * *once[i].gain_s, *doubled[i].gain_s);
  }
}

TEST(NextSteps, AreEmptyIfTheTimeIsUnknown) {
  const Program open = *parse("bf16[B, D] * bf16[D, F] -> bf16[B, F]");
  EXPECT_TRUE(suggest_next_steps(open, *explain(open, make_linked_machine(), {}), {"B"}).empty());
}

TEST(RelevantDimensions, AreOpenOrGivenOrTheThreeInMostStatements) {
  const Program program = *parse(layer);
  using Names = std::vector<std::string>;
  EXPECT_EQ(relevant_dimensions(program, *explain(program, make_linked_machine(), {{"B", 4}}), {{"B", 4}}), Names{"B"});
  EXPECT_EQ(relevant_dimensions(program, *explain(program, make_linked_machine(), {}), {}), (Names{"B", "F", "D"}));
  const Program open = *parse("bf16[B, D] * bf16[D, F] -> bf16[B, F]");
  EXPECT_EQ(relevant_dimensions(open, *explain(open, make_linked_machine(), {{"D", 8}}), {{"D", 8}}),
            (Names{"B", "D", "F"}));
}

TEST(KernelGroups, IncludeStatementsThatMustRunBetween) {
  const Program program = *parse(attention);
  EXPECT_EQ(Dependencies(program).join_groups(unfused_groups(program), {0, 2}), (KernelGroups{{0, 1, 2}}));
  EXPECT_EQ(Dependencies(program).join_groups(unfused_groups(program), {0, 1}), (KernelGroups{{0, 1}, {2}}));
  EXPECT_EQ(*parse_groups(program, {{"p", "o"}}), (KernelGroups{{0}, {1, 2}}));
  EXPECT_EQ(parse_groups(program, {{"s", "o"}}).error().hint, "--fuse s,p,o");
  EXPECT_EQ(parse_groups(program, {{"s", "z"}}).error().message, "no statement computes 'z'; expected some of s, p, o");
  EXPECT_EQ(parse_groups(program, {{"s", "p"}, {"p", "o"}}).error().message, "'p' is named twice after --fuse");
}

}  // namespace
}  // namespace ridge
