// A convolution in groups of few output channels (depthwise), which would be slow as a product: each output row is a
// vector of sums, to which every kernel element adds a shifted row of the input.
#pragma once

#include <array>
#include <vector>

#include "ridge/ops/loops/problem.h"

namespace ridge::ops {

// An input channel in f32 with its padding. A row is stored as `stride` phases: element i is in phase i % stride, so
// that the inputs of consecutive outputs are contiguous.
struct PaddedChannel {
  explicit PaddedChannel(const ConvLoops& conv);
  std::array<ConvWindow, 3> windows;              // missing leading dimensions have size 1
  std::array<std::int64_t, 3> padding{}, rows{};  // rows: padded extent of the input
  std::int64_t phase = 0;                         // floats of one phase of a row
  std::vector<std::int64_t> elements;  // position of the input of each kernel element along the last dimension
  std::int64_t sums = 0;               // floats of one row of sums: whole vectors
  std::int64_t row_floats(std::int64_t stride) const { return phase * stride; }
  std::int64_t channel_floats(std::int64_t stride) const { return rows[0] * rows[1] * row_floats(stride); }
  std::int64_t plane_floats() const { return windows[0].out * windows[1].out * sums; }
};

// One group of one image. `scratch` has the channel, the sums of each output channel of the group, and their weights.
struct DirectConvolutionRun {
  const ConvLoops& conv;
  const PaddedChannel& geometry;
  const void *x, *w;  // data of the group
  void* y;
  float* scratch;
};

// Variants of direct_convolution_body.cc, which is compiled once per instruction set.
namespace plain {
void run_direct_convolution(const DirectConvolutionRun& run);
}
namespace avx2 {
void run_direct_convolution(const DirectConvolutionRun& run);
}
namespace avx512 {
void run_direct_convolution(const DirectConvolutionRun& run);
}

}  // namespace ridge::ops
