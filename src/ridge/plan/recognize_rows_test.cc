// Row functions and their gradients become one kernel in any equivalent form, and similar programs do not.
#include <gtest/gtest.h>

#include <set>

#include "ridge/plan/plan.h"

namespace ridge {
namespace {

using ops::RowFunction, ops::RowProblem;

const std::string head = "dims N = 6, D = 80\nx: bf16[N, D]   w: bf16[D]   dy: bf16[N, D]\n";

// Returns the row function that the whole program computes, or nullopt if there are other steps.
std::optional<RowProblem> only_row_problem(const std::string& text, Target target = Target::cpu) {
  const Program program = parse(head + text).value();
  const Plan made = make_plan(program, program.bind_sizes({}).value(), {.target = target}).value();
  const RowProblem* const rows = made.steps.size() == 1 ? std::get_if<RowProblem>(&made.steps[0].kernel) : nullptr;
  return rows != nullptr ? std::optional(*rows) : std::nullopt;
}
void expect_row_function(RowFunction function, const std::vector<std::string>& spellings) {
  for (const std::string& text : spellings) {
    const auto found = only_row_problem(text);
    ASSERT_TRUE(found) << text;
    EXPECT_EQ(found->function, function) << text;
    EXPECT_EQ(found->rows, 6) << text;
    EXPECT_EQ(found->columns, 80) << text;
    EXPECT_EQ(found->x, (ops::RowLayout{DType::bf16, 80})) << text;
    EXPECT_EQ(found->dy, (is_gradient(function) ? ops::RowLayout{DType::bf16, 80} : ops::RowLayout{})) << text;
  }
}

const std::string scale = "r[N] = rsqrt(mean(x * x over D) + 1e-5)\n", result = "dx: bf16[N, D] = ";
const std::string centred = "u[N, D] = x - mean(x over D)\nr[N] = rsqrt(mean(u * u over D) + 1e-5)\n",
                  to_weight = "dw: f32[D] = ";

TEST(RecognizeRows, RmsnormGradientsInEquivalentForms) {
  expect_row_function(
      RowFunction::rmsnorm_gradient,
      {scale + "h[N, D] = x * r\ng[N, D] = dy * w\nc[N] = mean(g * h over D)\n" + result + "r * (g - h * c)",
       scale + "g[N, D] = w * dy\nc[N] = mean(g * x over D)\n" + result + "g * r - x * (c * r * r * r)",
       scale + result + "r * dy - x * r * r * r * mean(dy * x over D)",
       "r[N] = 1 / sqrt(sum(x ** 2 over D) / 80 + 1e-5)\ng[N, D] = w * dy\nc[N] = sum(g * x * 0.0125 over D)\n" +
           result + "(g - x * c * r ** 2) * r",
       "r[N] = (mean(x * x over D) + 1e-5) ** -0.5\n" + result + "r * (dy * w - x * r * r * mean(dy * w * x over D))",
       "s[N] = sum(x * x over D) / size(D)\nr[N] = rsqrt(s + 1e-5)\n" + result +
           "r * dy * w - x * r / (s + 1e-5) * mean(dy * w * x over D)"});
  const auto found = only_row_problem("r[N] = rsqrt(mean(x * x over D) + 1e-6)\n" + result +
                                      "r * (dy * w - x * r * r * mean(dy * w * x over D))");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->epsilon, 1e-6F);
  EXPECT_EQ(found->weight_dtype, DType::bf16);
}

TEST(RecognizeRows, LayernormGradientsInEquivalentForms) {
  expect_row_function(
      RowFunction::layernorm_gradient,
      {centred + "h[N, D] = u * r\ng[N, D] = dy * w\na[N] = mean(g over D)\nc[N] = mean(g * h over D)\n" + result +
           "r * (g - a - h * c)",
       centred + result + "r * (dy - mean(dy over D) - u * r * r * mean(dy * u over D))",
       centred + "g[N, D] = dy * w\nv[N, D] = g - mean(g over D)\n" + result +
           "v * r - u * (mean(v * u over D) * r * r * r)"});
}

TEST(RecognizeRows, SoftmaxGradientsInEquivalentForms) {
  expect_row_function(
      RowFunction::softmax_gradient,
      {"d[N] = sum(x * dy over D)\ny: bf16[N, D] = x * (dy - d)", "d[N] = x * dy\ny: bf16[N, D] = x * dy - d * x",
       "v[N, D] = dy * x\nd[N] = sum(v over D)\ny: bf16[N, D] = v - x * d",
       "y: bf16[N, D] = x * (dy - sum(x * dy over D))"});
}

std::vector<PlanStep> steps_of(const std::string& text, Target target = Target::cpu) {
  const Program program = parse(head + text).value();
  return make_plan(program, program.bind_sizes({}).value(), {.target = target}).value().steps;
}
void expect_sum_across_rows(RowFunction function, const std::vector<std::string>& spellings) {
  for (const Target target : {Target::cpu, Target::cuda})
    for (const std::string& text : spellings) {
      const auto found = only_row_problem(text, target);
      ASSERT_TRUE(found) << text;
      EXPECT_EQ(found->function, function) << text;
      EXPECT_EQ(found->rows, 6) << text;
      EXPECT_EQ(found->columns, 80) << text;
      EXPECT_EQ(found->x, (ops::RowLayout{DType::bf16, 80})) << text;
      EXPECT_EQ(found->dy, (ops::RowLayout{DType::bf16, 80})) << text;
      EXPECT_EQ(found->y, (ops::RowLayout{DType::f32, 0})) << text;
    }
}

TEST(RecognizeRows, WeightGradientsInEquivalentForms) {
  expect_sum_across_rows(RowFunction::product_sum_across_rows,
                         {to_weight + "dy * x", to_weight + "sum(x * dy over N)"});
  expect_sum_across_rows(
      RowFunction::rmsnorm_weight_gradient,
      {scale + "h[N, D] = x * r\n" + to_weight + "dy * h", scale + to_weight + "sum(dy * x * r over N)",
       "h[N, D] = rmsnorm(x over D)\n" + to_weight + "h * dy",
       "h[N, D] = x / sqrt(sum(x * x over D) * 0.0125 + 1e-5)\n" + to_weight + "sum(h * dy over N)"});
  expect_sum_across_rows(
      RowFunction::layernorm_weight_gradient,
      {centred + "h[N, D] = u * r\n" + to_weight + "dy * h", centred + to_weight + "sum(dy * r * u over N)",
       "h[N, D] = layernorm(x over D)\n" + to_weight + "dy * h"});
}

// Intermediates that the gradient of x also needs are computed twice and stored by neither kernel.
TEST(RecognizeRows, TwoGradientsOfANormAreTwoKernels) {
  const std::string norm = scale + "h[N, D] = x * r\n", weight = to_weight + "dy * h\n",
                    rest = "g[N, D] = dy * w\nc[N] = mean(g * h over D)\n" + result + "r * (g - h * c)\n";
  for (const Target target : {Target::cpu, Target::cuda})
    for (const std::string& text : {norm + weight + rest, norm + rest + weight}) {
      const std::vector<PlanStep> steps = steps_of(text, target);
      ASSERT_EQ(steps.size(), 2u) << text;
      std::set<RowFunction> functions;
      for (const PlanStep& step : steps) functions.insert(std::get<RowProblem>(step.kernel).function);
      EXPECT_EQ(functions, (std::set{RowFunction::rmsnorm_gradient, RowFunction::rmsnorm_weight_gradient})) << text;
    }
}

// The forward pass also reads h, and only h reads r.
TEST(RecognizeRows, ANormAndItsWeightGradientAreTwoKernels) {
  for (const Target target : {Target::cpu, Target::cuda}) {
    const std::vector<PlanStep> steps =
        steps_of(scale + "h[N, D] = x * r\ny: bf16[N, D] = h * w\n" + to_weight + "dy * h", target);
    ASSERT_EQ(steps.size(), 2u);
    EXPECT_EQ(std::get<RowProblem>(steps[0].kernel).function, RowFunction::rmsnorm);
    EXPECT_EQ(std::get<RowProblem>(steps[1].kernel).function, RowFunction::rmsnorm_weight_gradient);
  }
}

// If dy is computed, another kernel computes it. The rows of x may have several dimensions.
TEST(RecognizeRows, WeightGradientsAfterOtherStatements) {
  const std::vector<PlanStep> steps =
      steps_of("z: bf16[N, D] = dy * 2\n" + scale + "h[N, D] = x * r\ndw: bf16[D] = z * h");
  ASSERT_EQ(steps.size(), 2u);
  EXPECT_EQ(std::get<RowProblem>(steps[1].kernel).function, RowFunction::rmsnorm_weight_gradient);
  EXPECT_EQ(std::get<RowProblem>(steps[1].kernel).y.dtype, DType::bf16);
  const Program program = parse(
                              "dims A = 3, B = 5, D = 64\nx: f32[A, B, D]   dy: f32[A, B, D]\n"
                              "h[A, B, D] = layernorm(x over D)\ndw: f32[D] = dy * h")
                              .value();
  const Plan made = make_plan(program, program.bind_sizes({}).value()).value();
  ASSERT_EQ(made.steps.size(), 1u);
  EXPECT_EQ(std::get<RowProblem>(made.steps[0].kernel).rows, 15);
}

TEST(RecognizeRows, ASumAcrossRowsIsASeparateKernel) {
  const Program program =
      parse(head + "h[N, D] = rmsnorm(x over D)\n" + to_weight + "dy * h\nz: f32[D] = dw * 2").value();
  const Plan made = make_plan(program, program.bind_sizes({}).value()).value();
  ASSERT_EQ(made.fusion.boundaries.size(), 1u);
  EXPECT_EQ(made.fusion.boundaries[0].reason, "dw is a sum across rows, which is a separate kernel");
}

TEST(RecognizeRows, SimilarSumsAreNotWeightGradients) {
  for (const std::string& text : {
           scale + "h[N, D] = x * r * r\n" + to_weight + "dy * h",
           scale + "h[N, D] = abs(x) * r\n" + to_weight + "dy * h",
           scale + "h[N, D] = x * r\n" + to_weight + "sum(dy * h over N) * 2",
           scale + "h[N, D] = x * r\n" + to_weight + "mean(dy * h over N)",
           scale + "h[N, D] = x * r\n" + to_weight + "max(dy * h over N)",
           centred + "h[N, D] = x * r\n" + to_weight + "dy * h",
       })
    EXPECT_FALSE(only_row_problem(text)) << text;
}

TEST(RecognizeRows, RecognizesFunctionsWrittenOut) {
  expect_row_function(RowFunction::softmax,
                      {"m[N] = max(x over D)\ne[N, D] = exp(x - m)\ny: bf16[N, D] = e / sum(e over D)"});
  expect_row_function(RowFunction::log_sum_exp,
                      {"m[N] = max(x over D)\ns[N] = sum(exp(x - m) over D)\ny: f32[N] = m + log(s)"});
  expect_row_function(RowFunction::rmsnorm, {scale + "y: bf16[N, D] = x * r * w", scale + "y: f32[N, D] = r * x"});
  expect_row_function(RowFunction::layernorm,
                      {"u[N, D] = x - mean(x over D)\ny: bf16[N, D] = u / sqrt(mean(u * u over D) + 1e-5)"});
}

// Where a generated kernel would leave a device idle or rows are too long for it, the precompiled kernels are used.
TEST(RecognizeRows, FewLongNormRowsAreOneDeviceKernel) {
  for (const char* const sizes : {"N = 63, D = 16384", "N = 4096, D = 140000"}) {
    const std::string inputs = std::string("dims ") + sizes + "\nx: bf16[N, D]   w: bf16[D]   dy: bf16[N, D]\n";
    const auto steps = [&](const std::string& text) {
      const Program program = parse(inputs + text).value();
      return make_plan(program, program.bind_sizes({}).value(), {.target = Target::cuda}).value().steps;
    };
    const auto norm = steps("y: bf16[N, D] = rmsnorm(x over D) * w");
    ASSERT_EQ(norm.size(), 1u) << sizes;
    EXPECT_TRUE(std::holds_alternative<RowProblem>(norm[0].kernel)) << sizes;
    EXPECT_GT(steps(scale + result + "r * (dy - x * r * r * mean(dy * x over D))").size(), 1u) << sizes;
  }
}

TEST(RecognizeRows, KeepsTinyEpsilons) {
  const auto found = only_row_problem("y: bf16[N, D] = x * rsqrt(mean(x * x over D) + 1e-18)");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->epsilon, 1e-18F);
}

TEST(RecognizeRows, SimilarProgramsAreNotRecognized) {
  const std::string all[] = {
      scale + result + "r * (dy * w - x * r * mean(dy * w * x over D))",            // r instead of r * r
      scale + result + "r * (dy * w + x * r * r * mean(dy * w * x over D))",        // plus instead of minus
      scale + result + "r * (dy * w - x * r * r * mean(dy * x over D))",            // no weight in the mean
      scale + result + "r * (dy * w - x * r * r * sum(dy * w * x over D))",         // sum instead of mean
      scale + result + "r * (dy * w - abs(x) * r * r * mean(dy * w * x over D))",   // abs is not smooth
      scale + result + "r * (dy * w - x * r * r * mean(dy * w * x over D)) * 0.5",  // half of the gradient
      "r[N] = rsqrt(mean(x * x over D) + 1e-5)\nq[N] = rsqrt(mean(x * x over D) + 1e-6)\n" + result +
          "r * (dy * w - x * q * q * mean(dy * w * x over D))",                      // q and r have different epsilons
      scale + "dx: f32[N, D] = r * (dy * w - x * r * r * mean(dy * w * x over D))",  // f32 result of bf16 inputs
      "y: bf16[N, D] = sqrt(x * x) * rsqrt(mean(x * x over D) + 1e-5)",              // sqrt(x * x) is not smooth
      "m[N] = max(x over D)\ne[N, D] = exp(x - m)\ny: bf16[N, D] = e / (1 + sum(e over D))",
      "m[N] = min(x over D)\ne[N, D] = exp(x - m)\ny: bf16[N, D] = e / sum(e over D)",
      scale + "y: bf16[N, D] = x * r\nz: bf16[N, D] = dy + y",  // y is also read elsewhere
      // Constants too small to change any of the random test values.
      "e[N, D] = exp(x)\ny: bf16[N, D] = e / (sum(e over D) + 1e-12)", "y: f32[N] = log(sum(exp(x) over D) + 1e-12)",
      "u[N, D] = x - mean(x over D)\ny: bf16[N, D] = u * rsqrt(mean(u * u over D) + 1e-18) + 1e-30",
      "y: f32[N] = log(sum(exp(x) over D))",  // differs from log-sum-exp for a row of -inf
  };
  for (const std::string& text : all) EXPECT_FALSE(only_row_problem(text)) << text;
}

// Rows of several dimensions, with and without a single stride between them.
TEST(RecognizeRows, RecognizesRowsOfSeveralDimensions) {
  const std::string text =
      "r[A, B] = rsqrt(mean(x * x over D) + 1e-5)\ndx: bf16[A, B, D] = r * (dy - x * r * r * mean(dy * x over D))";
  const auto steps = [&](const std::string& inputs) {
    const Program program = parse("dims A = 3, B = 5, D = 64\n" + inputs + text).value();
    return make_plan(program, program.bind_sizes({}).value()).value().steps;
  };
  const auto whole_rows = steps("x: bf16[A, B, D]   dy: bf16[A, B, D]\n");
  ASSERT_EQ(whole_rows.size(), 1u);
  ASSERT_TRUE(std::holds_alternative<RowProblem>(whole_rows[0].kernel));
  EXPECT_EQ(std::get<RowProblem>(whole_rows[0].kernel).rows, 15);
  for (const PlanStep& step : steps("x: bf16[A, B, D]   dy: bf16[B, A, D]\n"))
    EXPECT_FALSE(std::holds_alternative<RowProblem>(step.kernel));
}

}  // namespace
}  // namespace ridge
