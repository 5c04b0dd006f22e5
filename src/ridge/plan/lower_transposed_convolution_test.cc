// Plans of transposed convolutions: the product, its fold, and the copies that some layouts need.
#include <gtest/gtest.h>

#include "ridge/plan/plan.h"

namespace ridge {
namespace {

using ops::FoldAxis;
using ops::FoldLoops;
using ops::MatmulProblem;

Plan plan_program(const std::string& text, Target target = Target::cpu) {
  const auto program = parse(text);
  EXPECT_TRUE(program.ok()) << (program.ok() ? "" : program.error().to_string());
  return make_plan(*program, *program->bind_sizes({}), {.target = target}).value();
}

// Returns the plan's copies, and "product" or "fold" for other steps.
std::vector<std::string> list_steps(const Plan& plan) {
  std::vector<std::string> out;
  for (const PlanStep& step : plan.steps) {
    out.push_back(step.copy_description);
    if (std::holds_alternative<MatmulProblem>(step.kernel) || std::holds_alternative<ops::FusedMatmul>(step.kernel))
      out.back() = "product";
    if (std::holds_alternative<FoldLoops>(step.kernel)) out.back() = "fold";
  }
  return out;
}

const MatmulProblem& product_of(const Plan& plan, std::size_t step) {
  return std::get<MatmulProblem>(plan.steps.at(step).kernel);
}
const FoldLoops& fold_of(const Plan& plan) { return std::get<FoldLoops>(plan.steps.back().kernel); }

// The columns of windows that do not overlap have the result's dtype.
TEST(TransposedConvolution, MultipliesEachImageByTheWeightsAsTheyAre) {
  const Plan plan = plan_program(
      "dims N = 3, C = 16, K = 8, H = 12, W = 16\nx: bf16[N, C, H, W]  w: bf16[C, K, 2, 2]\n"
      "y: bf16[N, K, 24, 32] = conv_transpose(x, w, stride = 2)");
  ASSERT_EQ(list_steps(plan), (std::vector<std::string>{"product", "fold"}));
  EXPECT_EQ(product_of(plan, 0), (MatmulProblem{.batch = 3,
                                                .size = {8 * 4, 12 * 16, 16},
                                                .a = {DType::bf16, 1, 32, 0},
                                                .b = {DType::bf16, 192, 1, 16 * 192},
                                                .d = {DType::bf16, 192, 1, 32 * 192}}));
  EXPECT_EQ(plan.steps[0].buffers, (std::vector<int>{1, 0, 3}));
  const FoldLoops expected{DType::bf16,
                           DType::bf16,
                           {{.positions = 3, .out = 3, .position_stride = 32 * 192, .y_stride = 8 * 768},
                            {.positions = 8, .out = 8, .position_stride = 4 * 192, .y_stride = 768},
                            {12, 24, 2, 2, 0, 1, 16, 2 * 192, 32},
                            {16, 32, 2, 2, 0, 1, 1, 192, 1}}};
  EXPECT_EQ(fold_of(plan), expected);
  EXPECT_EQ(plan.steps[1].buffers, (std::vector<int>{3, 2}));
}

TEST(TransposedConvolution, SumsOverlappingWindowsInF32) {
  const auto columns = [](const std::string& kernel, const std::string& options) {
    return fold_of(plan_program("x: bf16[2, 4, 9]  w: bf16[4, 3, " + kernel + "]\ny: bf16[2, 3, " + options + ")"))
        .columns;
  };
  EXPECT_EQ(columns("3", "27] = conv_transpose(x, w, stride = 3"), DType::bf16);
  EXPECT_EQ(columns("4", "28] = conv_transpose(x, w, stride = 3"), DType::f32);
  EXPECT_EQ(columns("2", "20] = conv_transpose(x, w, stride = 2, dilation = 3"), DType::bf16);  // taps at 0 and 3
  EXPECT_EQ(columns("2", "19] = conv_transpose(x, w, stride = 2, dilation = 2"), DType::f32);
}

TEST(TransposedConvolution, MultipliesAllImagesIfChannelsAreLast) {
  const Plan plan = plan_program(
      "dims N = 3, C = 16, K = 8, H = 5, W = 7\nx: f32[N, H, W, C]  w: f32[C, 4, 4, K]\n"
      "y: f32[N, 10, 14, K] = conv_transpose(x, w, stride = 2, padding = 1)");
  ASSERT_EQ(list_steps(plan), (std::vector<std::string>{"product", "fold"}));
  EXPECT_EQ(product_of(plan, 0), (MatmulProblem{.batch = 1,
                                                .size = {3 * 5 * 7, 8 * 16, 16},
                                                .a = {DType::f32, 16, 1, 0},
                                                .b = {DType::f32, 8 * 16, 1, 0},
                                                .d = {DType::f32, 8 * 16, 1, 0}}));
  EXPECT_EQ(plan.steps[0].buffers, (std::vector<int>{0, 1, 3}));
  const FoldLoops expected{DType::f32,
                           DType::f32,
                           {{.positions = 3, .out = 3, .position_stride = 35 * 128, .y_stride = 8 * 140},
                            {5, 10, 4, 2, 1, 1, 7 * 128, 4 * 8, 14 * 8},
                            {7, 14, 4, 2, 1, 1, 128, 8, 8},
                            {.positions = 8, .out = 8, .position_stride = 1, .y_stride = 1}}};
  EXPECT_EQ(fold_of(plan), expected);
}

TEST(TransposedConvolution, MultipliesGroupsOfAllImages) {
  const std::string sizes = "dims N = 3, C = 16, K = 8, T = 5\n";
  const Plan plan = plan_program(sizes +
                                 "x: bf16[N, C, T]  w: bf16[C, 2, 3]\n"
                                 "y: bf16[N, K, 7] = conv_transpose(x, w, groups = 4)");
  ASSERT_EQ(list_steps(plan), (std::vector<std::string>{"x[N, C, T] to [C, N, T] order", "product", "fold"}));
  EXPECT_EQ(product_of(plan, 1), (MatmulProblem{.batch = 4,
                                                .size = {2 * 3, 3 * 5, 4},
                                                .a = {DType::bf16, 1, 6, 4 * 6},
                                                .b = {DType::bf16, 15, 1, 4 * 15},
                                                .d = {DType::f32, 15, 1, 6 * 15}}));
  const Plan last = plan_program(sizes +
                                 "x: bf16[N, T, C]  w: bf16[C, 3, 2]\n"
                                 "y: bf16[N, 7, K] = conv_transpose(x, w, groups = 4)");
  ASSERT_EQ(list_steps(last), (std::vector<std::string>{"product", "fold"}));
  EXPECT_EQ(product_of(last, 0), (MatmulProblem{.batch = 4,
                                                .size = {3 * 5, 3 * 2, 4},
                                                .a = {DType::bf16, 16, 1, 4},
                                                .b = {DType::bf16, 6, 1, 4 * 6},
                                                .d = {DType::f32, 24, 1, 6}}));
}

TEST(TransposedConvolution, ConvertsMixedDtypesToF32) {
  const Plan plan = plan_program(
      "dims N = 3, C = 16, K = 8, T = 130\nx: bf16[N, C, T]  w: f32[C, K, 3]\ny: f16[N, K, 132] = conv_transpose(x, "
      "w)");
  ASSERT_EQ(list_steps(plan), (std::vector<std::string>{"x[N, C, T] to [N, C, T] order, to f32", "product", "fold"}));
  EXPECT_EQ(product_of(plan, 1).b.dtype, DType::f32);
  EXPECT_EQ(fold_of(plan).y, DType::f16);
}

// Products of 35 columns for each image would fill a quarter of a device's tiles.
TEST(TransposedConvolution, MultipliesAllImagesIfTheyAreSmall) {
  const auto steps = [](const std::string& image, const std::string& result) {
    return list_steps(plan_program("x: bf16[3, 16, " + image + "]  w: bf16[16, 8, 2, 2]\ny: bf16[3, 8, " + result +
                                   "] = conv_transpose(x, w, stride = 2)"));
  };
  EXPECT_EQ(steps("5, 7", "10, 14"),
            (std::vector<std::string>{"x[3, 16, 5, 7] to [16, 3, 5, 7] order", "product", "fold"}));
  EXPECT_EQ(steps("8, 16", "16, 32"), (std::vector<std::string>{"product", "fold"}));
  EXPECT_EQ(steps("1, 1", "2, 2"), (std::vector<std::string>{"product", "fold"}));
}

// On a device the tensors between convolutions have channels last in memory. Only the weights change their order.
TEST(TransposedConvolution, KeepsTheOrderOfConvolutionsAroundIt) {
  const Plan plan = plan_program(
      "dims N = 2, C = 16, K = 64, M = 32, L = 24, H = 6, W = 7\n"
      "x: bf16[N, C, H, W]  w: bf16[K, C, 3, 3]  v: bf16[K, M, 2, 2]  u: bf16[L, M, 3, 3]\n"
      "a[N, K, H, W] = conv(x, w, padding = 1)\nb[N, M, 12, 14] = conv_transpose(a, v, stride = 2)\n"
      "y: bf16[N, L, 12, 14] = conv(b, u, padding = 1)",
      Target::cuda);
  EXPECT_EQ(list_steps(plan),
            (std::vector<std::string>{"x[N, C, H, W] to [N, H, W, C] order", "w[K, C, 3, 3] to [K, 3, 3, C] order",
                                      "product", "v[K, M, 2, 2] to [K, 2, 2, M] order", "product", "fold",
                                      "u[L, M, 3, 3] to [L, 3, 3, M] order", "product",
                                      "y[N, 12, 14, L] to [N, L, 12, 14] order"}));
}

TEST(TransposedConvolution, RefusesMoreProductsThanMemoryHasAddresses) {
  const auto program = parse("x: f32[1, 1, W]  w: f32[1, K, R]\ny: f32[1, K, P] = conv_transpose(x, w)");
  const auto plan = make_plan(
      *program,
      *program->bind_sizes({{"W", 1LL << 31}, {"K", 1 << 20}, {"R", 1 << 16}, {"P", (1LL << 31) + (1 << 16) - 1}}));
  ASSERT_FALSE(plan.ok());
  EXPECT_EQ(plan.error().message,
            "cannot run 'y: f32[1, K, P] = conv_transpose(x, w)': its products before they are added take more than "
            "2^62 bytes");
}

}  // namespace
}  // namespace ridge
