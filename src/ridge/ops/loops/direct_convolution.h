// A convolution in groups of few output channels, which would be slow as a product. In general each output row is a
// vector of sums, to which every kernel element adds a shifted row of the input. If each channel is a group
// (depthwise), a vector may instead hold one pixel of many channels: rows are transposed when they are read and stored.
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

// Returns the parts that threads take from each other: groups of an image, or rows of blocks of channels.
std::int64_t count_convolution_parts(const ConvLoops& conv, int threads);

// Geometry of a depthwise convolution in one or two dimensions, computed for `channels` channels together. A pixel is
// one float of each of them.
struct ChannelBlocks {
  static constexpr std::int64_t channels = 16, max_tile = 8;
  static constexpr std::int64_t piece_pixels = 64;  // pixels that are transposed together, in full rows
  explicit ChannelBlocks(const ConvLoops& conv);
  std::int64_t tile = 0;                   // outputs whose sums stay in registers: 7 or 8
  std::int64_t row_pixels = 0;             // pixels of a padded input row
  std::int64_t ring_rows = 0;              // padded input rows that are kept; a row of zeros follows
  std::int64_t rows_in = 0, rows_out = 0;  // rows that are transposed together
  std::int64_t in_floats() const { return channels * rows_in * in_width; }
  std::int64_t ring_floats() const { return channels * (ring_rows + 1) * row_pixels; }
  std::int64_t out_floats() const { return channels * (rows_out * out_width + max_tile); }
  std::int64_t scratch_floats() const { return in_floats() + ring_floats() + out_floats() + channels * kernel; }
  std::int64_t in_width = 0, out_width = 0, kernel = 0;  // elements of a row of x, of a row of y, and of the kernel
};

// Rows of up to ChannelBlocks::channels channels of one image of a depthwise convolution.
struct DepthwiseRun {
  const ConvLoops& conv;
  const ChannelBlocks& geometry;
  std::int64_t channels;
  std::int64_t first_row, last_row;  // rows of y to compute, without last_row
  const void *x, *w;                 // data of the first channel
  void* y;
  float* scratch;
};

// Variants of direct_convolution_body.cc and depthwise_body.cc, which are compiled once per instruction set.
namespace plain {
void run_direct_convolution(const DirectConvolutionRun& run);
void run_depthwise(const DepthwiseRun& run);
}  // namespace plain
namespace avx2 {
void run_direct_convolution(const DirectConvolutionRun& run);
void run_depthwise(const DepthwiseRun& run);
}  // namespace avx2
namespace avx512 {
void run_direct_convolution(const DirectConvolutionRun& run);
void run_depthwise(const DepthwiseRun& run);
}  // namespace avx512

}  // namespace ridge::ops
