// Random convolutions on a CUDA device against the reference: edges of tiles, channels that fill no box, strides,
// padding, dilation, groups, one to three window dimensions, fused epilogues and convolutions of convolutions.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "ridge/device/device.h"
#include "ridge/measure/run.h"
#include "ridge/roofline/testing/random_program.h"

namespace ridge {
namespace {

struct ConvolutionCase {
  std::string text;
  Bindings sizes;
};

class RandomConvolution {
 public:
  explicit RandomConvolution(unsigned seed) : random_(seed) {}

  ConvolutionCase make() {
    const int groups = below(5) == 0 ? 2 : 1, axes = 1 + below(3);
    const int stride = 1 + below(3), padding = below(4), dilation = 1 + below(3);
    Bindings sizes{{"N", 1 + below(4)}, {"C", groups == 2 ? 128 : pick_channels()}, {"K", groups * pick_channels()}};
    std::string image, window, result, ones, threes;
    constexpr int extents[] = {300, 20, 6};  // with one, two or three window dimensions
    for (int i = 0; i < axes; ++i) {
      const int kernel = 1 + below(axes == 3 ? 3 : 5), extent = extents[axes - 1];
      const int in = std::max(1, dilation * (kernel - 1) + 1 - 2 * padding) + below(extent);
      image += fmt::format(", H{}", i);
      result += fmt::format(", P{}", i);
      window += fmt::format(", {}", kernel);
      ones += ", 1";
      threes += ", 3";
      sizes[fmt::format("H{}", i)] = in;
      sizes[fmt::format("P{}", i)] = (in + 2 * padding - dilation * (kernel - 1) - 1) / stride + 1;
    }
    const std::string dtype = below(2) == 0 ? "bf16" : "f16";
    const std::string conv = fmt::format("conv(x, w, stride = {}, padding = {}, dilation = {}, groups = {})", stride,
                                         padding, dilation, groups);
    std::string text =
        fmt::format("x: {0}[N, C{1}]  w: {0}[K, {2}{3}]\n", dtype, image, groups == 1 ? "C" : "64", window);
    switch (below(3)) {
      case 0: text += fmt::format("y: {}[N, K{}] = {}", below(2) == 0 ? dtype : "f32", result, conv); break;
      case 1:
        text += fmt::format("b: {0}[K]  r: {0}[N, K{1}]\nc: {0}[N, K{1}] = {2}\ny: {0}[N, K{1}] = relu(c + b + r)",
                            dtype, result, conv);
        break;
      default:
        text += fmt::format("b: {0}[K]  v: {0}[L, K{3}]\nc: {0}[N, K{1}] = {2}\n", dtype, result, conv, ones);
        if (below(2) == 0)  // depthwise, between products that have channels last in memory
          text += fmt::format("d: {0}[K, 1{2}]\nh: {0}[N, K{1}] = conv(c, d, padding = 1, groups = K)\n", dtype, result,
                              threes);
        else
          text += fmt::format("h[N, K{0}] = relu(c + b)\n", result);
        text += fmt::format("y: {0}[N, L{1}] = conv(h, v)", dtype, result);
        sizes["L"] = pick_channels();
    }
    return {std::move(text), std::move(sizes)};
  }

 private:
  int below(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }
  int pick_channels() {
    constexpr int sizes[] = {1, 3, 6, 8, 20, 64, 72, 200};
    return sizes[below(8)];
  }

  std::mt19937 random_;
};

TEST(RunOnDevice, convolutions_match_the_reference) {
  if (!device::device_properties()) GTEST_SKIP() << device::device_properties().error().message;
  for (unsigned seed = 0; seed < testing::program_count(200); ++seed) {
    const ConvolutionCase made = RandomConvolution(seed).make();
    const std::string which = fmt::format("seed {}: {}", seed, made.text);
    const auto program = parse(made.text);
    ASSERT_TRUE(program.ok()) << which << program.error().to_string();
    const auto explanation = explain(*program, *find_machine("h200"), made.sizes);
    ASSERT_TRUE(explanation.ok()) << which << explanation.error().to_string();
    const auto run = run_program(*program, *explanation, {.seed = seed, .cuda = true, .passes = 1});
    if (!run.ok()) {
      ADD_FAILURE() << which << '\n' << run.error().to_string();
      continue;
    }
    EXPECT_FALSE(run->mismatch) << which << '\n' << run->mismatch->to_string();
  }
}

}  // namespace
}  // namespace ridge
