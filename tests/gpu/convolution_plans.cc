// Times the planner's candidates for 3x3 and 5x5 convolutions on a device, in turn: a CSV row for each plan. The factor
// for boxes of few pixels in ops/product/plan.cc comes from it.
#include <algorithm>
#include <cstdio>

#include "ridge/ops/model.h"
#include "ridge/ops/product/describe.h"
#include "ridge/run/device_machine.h"
#include "ridge/run/plan_timer.h"

namespace {

using namespace ridge;

struct ConvolutionShape {
  std::int64_t images, image, channels, results, window, stride;
};
constexpr ConvolutionShape shapes[] = {{32, 56, 64, 64, 3, 1},   {32, 56, 128, 128, 3, 2}, {32, 28, 128, 128, 3, 1},
                                       {32, 28, 256, 256, 3, 2}, {32, 14, 256, 256, 3, 1}, {32, 14, 512, 512, 3, 2},
                                       {32, 7, 512, 512, 3, 1},  {8, 14, 256, 256, 3, 1},  {8, 28, 128, 128, 3, 1},
                                       {1, 56, 64, 64, 3, 1},    {1, 14, 256, 256, 3, 1},  {128, 14, 256, 256, 3, 1},
                                       {16, 40, 192, 96, 5, 1},  {4, 64, 320, 320, 3, 1}};

// Returns a convolution of square images with channels last whose padding keeps their size.
ops::MatmulProblem make_problem(const ConvolutionShape& x) {
  const std::int64_t padding = x.window / 2, out = (x.image + 2 * padding - x.window) / x.stride + 1,
                     k = x.window * x.window * x.channels, line = x.image * x.channels;
  const ops::WindowAxis axis{x.image, out, x.window, x.stride, 1, padding};
  ops::MatmulProblem p{.batch = 1,
                       .size = {x.images * out * out, x.results, k},
                       .a = {DType::bf16, x.channels, 1, 0},
                       .b = {DType::bf16, 1, k, 0},
                       .d = {DType::bf16, x.results, 1, 0}};
  p.pixel_windows = {.axes = {ops::WindowAxis{}, axis, axis},
                     .images = x.images,
                     .channels = x.channels,
                     .image_stride = x.image * line,
                     .axis_strides = {x.image * line, line, x.channels},
                     .tap_stride = x.channels};
  return p;
}

int time_candidates(const ConvolutionShape& x, const ops::DeviceNumbers& device) {
  constexpr std::size_t plans_per_config = 2, max_plans = 28;
  alignas(256) static std::byte a[256], b[256], d[256];
  const ops::cuda::MatmulCall call{.problem = make_problem(x), .a = a, .b = b, .d = d};
  auto plans = ops::cuda::list_candidates(call, ops::plan_workspace_bytes, device, plans_per_config);
  plans.resize(std::min(plans.size(), max_plans));
  const auto seconds = PlanTimer(call).measure_plans(plans, 5);
  if (!seconds) {
    std::fprintf(stderr, "%s\n", seconds.error().to_string().c_str());
    return 1;
  }
  for (std::size_t i = 0; i < plans.size(); ++i)
    std::printf("%ld,%ld,%ld,%ld,%ld,%ld,%s,%d,%.3f,%.3f\n", x.images, x.image, x.channels, x.results, x.window,
                x.stride, ops::cuda::plan_name(plans[i]).c_str(), plans[i].splits, 1e6 * plans[i].predicted_s,
                1e6 * (*seconds)[i]);
  return 0;
}

}  // namespace

int main() {
  const auto device = ridge::current_device_numbers();
  if (!device) {
    std::fprintf(stderr, "%s\n", device.error().to_string().c_str());
    return 77;
  }
  std::printf("images,image,channels,results,window,stride,plan,splits,predicted_us,measured_us\n");
  int wrong = 0;
  for (const ConvolutionShape& x : shapes) wrong += time_candidates(x, *device);
  return wrong > 0 ? 1 : 0;
}
