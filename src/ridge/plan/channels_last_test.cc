// Plans of convolutions on a device: which tensors have channels last in memory, which are copied, and the products.
#include <gtest/gtest.h>

#include "ridge/plan/plan.h"

namespace ridge {
namespace {

Plan plan_on_device(const std::string& text, bool fuse = true) {
  const auto program = parse(text);
  EXPECT_TRUE(program.ok()) << (program.ok() ? "" : program.error().to_string());
  return make_plan(*program, *program->bind_sizes({}), {.target = Target::cuda, .fuse = fuse}).value();
}

// Returns the plan's copies, and "product" or "loops" for other steps.
std::vector<std::string> list_steps(const Plan& plan) {
  std::vector<std::string> out;
  for (const PlanStep& step : plan.steps) {
    const bool is_product = std::holds_alternative<ops::MatmulProblem>(step.kernel) ||
                            std::holds_alternative<ops::FusedMatmul>(step.kernel);
    out.push_back(is_product ? "product" : "loops");
    if (!step.copy_description.empty()) out.back() = step.copy_description;
  }
  return out;
}

const ops::MatmulProblem& product_of(const PlanStep& step) {
  if (const auto* fused = std::get_if<ops::FusedMatmul>(&step.kernel)) return fused->product;
  return std::get<ops::MatmulProblem>(step.kernel);
}

TEST(ChannelsLast, NeedsNoCopyWhereTheProgramHasThem) {
  const Plan plan = plan_on_device(
      "dims N = 3, H = 9, W = 7, C = 16, K = 8\nx: bf16[N, H, W, C]  w: bf16[K, 3, 3, C]\n"
      "y: bf16[N, 5, 4, K] = conv(x, w, stride = 2, padding = 1)");
  ASSERT_EQ(list_steps(plan), std::vector<std::string>{"product"});
  ops::MatmulProblem expected{.batch = 1,
                              .size = {3 * 5 * 4, 8, 9 * 16},
                              .a = {DType::bf16, 16, 1, 0},
                              .b = {DType::bf16, 1, 9 * 16, 0},
                              .d = {DType::bf16, 8, 1, 0}};
  expected.pixel_windows = {.axes = {ops::WindowAxis{}, {9, 5, 3, 2, 1, 1}, {7, 4, 3, 2, 1, 1}},
                            .images = 3,
                            .channels = 16,
                            .image_stride = 9 * 7 * 16,
                            .axis_strides = {9 * 7 * 16, 7 * 16, 16},
                            .tap_stride = 16};
  EXPECT_EQ(product_of(plan.steps[0]), expected);
}

TEST(ChannelsLast, CopiesInputsOnceAndResultsAndKeepsIntermediates) {
  const Plan plan = plan_on_device(
      "dims N = 2, H = 6, W = 6, C = 64, K = 64\nx: bf16[N, C, H, W]  w: bf16[K, C, 3, 3]  v: bf16[K, C, 1, 1]\n"
      "a[N, K, H, W] = conv(x, w, padding = 1)\nb[N, K, H, W] = conv(x, v)\ny: bf16[N, K, H, W] = relu(a + b)",
      false);
  EXPECT_EQ(list_steps(plan),
            (std::vector<std::string>{"x[N, C, H, W] to [N, H, W, C] order", "w[K, C, 3, 3] to [K, 3, 3, C] order",
                                      "product", "product", "loops", "y[N, H, W, K] to [N, K, H, W] order"}));
  EXPECT_TRUE(product_of(plan.steps[2]).pixel_windows);
  EXPECT_FALSE(product_of(plan.steps[3]).pixel_windows);  // each window is one pixel
  EXPECT_EQ(plan.buffers[3].axes.size(), 4u);             // a, an intermediate, says its order
  EXPECT_EQ(plan.buffers[3].axes[1].stride, 1);
  EXPECT_TRUE(plan.buffers[5].axes.empty());  // y is row-major
}

TEST(ChannelsLast, PoolsInTheOrderOfConvolutions) {
  const Plan plan = plan_on_device(
      "dims N = 2, H = 7, W = 9, C = 16, K = 12, M = 8\nx: bf16[N, C, H, W]  w: bf16[K, C, 3, 3]  v: bf16[M, K, 3, 3]\n"
      "a[N, K, H, W] = conv(x, w, padding = 1)\n"
      "b[N, K, 4, 5] = max_pool(a over H, W, window = 3, stride = 2, padding = 1)\n"
      "y: bf16[N, M, 4, 5] = conv(b, v, padding = 1)");
  ASSERT_EQ(list_steps(plan),
            (std::vector<std::string>{"x[N, C, H, W] to [N, H, W, C] order", "w[K, C, 3, 3] to [K, 3, 3, C] order",
                                      "product", "loops", "v[M, K, 3, 3] to [M, 3, 3, K] order", "product",
                                      "y[N, 4, 5, M] to [N, M, 4, 5] order"}));
  const ops::PoolLoops expected{DType::bf16,
                                DType::bf16,
                                true,
                                {{.in = 2, .out = 2, .x_stride = 7 * 9 * 16, .y_stride = 4 * 5 * 16},
                                 {.in = 12, .out = 12, .x_stride = 1, .y_stride = 1},
                                 {7, 4, 3, 2, 1, 1, 9 * 16, 5 * 16},
                                 {9, 5, 3, 2, 1, 1, 16, 16}}};
  EXPECT_EQ(std::get<ops::PoolLoops>(plan.steps[3].kernel), expected);
}

TEST(ChannelsLast, PadsFewChannelsToRowsOfWindows) {
  const Plan plan = plan_on_device(
      "dims N = 2, H = 20, W = 21, C = 3, K = 64\nx: bf16[N, H, W, C]  w: bf16[K, 7, 7, C]\n"
      "y: bf16[N, 10, 11, K] = conv(x, w, stride = 2, padding = 3)");
  ASSERT_EQ(list_steps(plan), (std::vector<std::string>{"x[N, H, W, C] to 4 channels last",
                                                        "w[K, 7, 7, C] to 4 channels last", "product"}));
  const auto& images = std::get<ops::ImageCopy>(plan.steps[0].kernel);
  EXPECT_EQ(images.first_pixel, 3);
  EXPECT_EQ(images.to_pixels, 28);  // 21 and 3 on each side, to a multiple of 16 bytes
  EXPECT_EQ(images.to_channels, 4);
  EXPECT_EQ(images.to, (std::array<std::int64_t, 4>{20 * 28 * 4, 28 * 4, 4, 1}));
  const ops::MatmulProblem& product = product_of(plan.steps[2]);
  EXPECT_EQ(product.size.k, 7 * 7 * 4);
  EXPECT_EQ(product.pixel_windows->channels, 7 * 4);
  EXPECT_EQ(product.pixel_windows->axes[2], (ops::WindowAxis{11, 11}));
  EXPECT_EQ(product.pixel_windows->axis_strides[2], 2 * 4);
  EXPECT_EQ(product.pixel_windows->tap_stride, 32);
}

TEST(ChannelsLast, IsTheOrderOfDepthwiseConvolutionsInMemory) {
  EXPECT_EQ(list_steps(plan_on_device("x: bf16[2, 9, 8]  w: bf16[8, 3, 1]\n"
                                      "y: bf16[2, 7, 8] = conv(x, w, groups = 8)")),
            std::vector<std::string>{"loops"});
  EXPECT_EQ(list_steps(plan_on_device("x: f32[2, 99, 8]  w: f32[8, 33, 1]\n"
                                      "y: f32[2, 67, 8] = conv(x, w, groups = 8)")),
            (std::vector<std::string>{"x channels first", "loops", "y channels last"}))
      << "a row of the window exceeds the registers";
  const Plan plan = plan_on_device(
      "dims N = 2, H = 6, W = 6, C = 64, K = 64\nx: bf16[N, C, H, W]  w: bf16[K, 1, 3, 3]  u: bf16[K, C, 1, 1]\n"
      "v: bf16[C, K, 1, 1]\na[N, K, H, W] = conv(x, u)\nb[N, K, H, W] = conv(a, w, padding = 1, groups = K)\n"
      "y: bf16[N, C, H, W] = conv(b, v)",
      false);
  EXPECT_EQ(list_steps(plan), (std::vector<std::string>{"x[N, C, H, W] to [N, H, W, C] order", "product", "loops",
                                                        "product", "y[N, H, W, C] to [N, C, H, W] order"}))
      << "products have channels last in memory";
}

TEST(ChannelsLast, RunsWhatTheCopyEngineCannotLoadAsDirectSums) {
  for (const char* text :
       {"x: f32[2, 8, 9]  w: f32[4, 8, 3]\ny: f32[2, 4, 7] = conv(x, w)",                    // no tensor cores
        "x: bf16[2, 8, 9]  w: bf16[8, 1, 3]\ny: bf16[2, 8, 7] = conv(x, w, groups = 8)",     // part of a box in a group
        "x: bf16[2, 8, 19]  w: bf16[4, 8, 1]\ny: bf16[2, 4, 2] = conv(x, w, stride = 10)"})  // beyond the engine's
                                                                                             // stride
    EXPECT_EQ(list_steps(plan_on_device(text)), std::vector<std::string>{"loops"}) << text;
}

}  // namespace
}  // namespace ridge
