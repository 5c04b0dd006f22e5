// Depthwise convolutions with channels last (ConvLoops), for kernels that are generated at run time. Adjacent threads
// compute adjacent channels. Each thread computes a tile of `rows` by `columns` results of its channels: it loads a
// pixel once for each row of the kernel at most and adds it to all results of the tile that read it. A block holds the
// weights of its channels in shared memory. Padding is multiplied as 0.
#pragma once

#include "ridge/tile/cuda/vector_access.h"

namespace ridge::ops::cuda {

using namespace tile::cuda;

// Constants of the source. The channels are among them, so that the distances of pixels are immediate operands.
struct DepthwiseShape {
  NumberFormat x, w, y;
  int kernel[3], padding[3], stride, dilation;  // Missing leading dimensions have size 1
  int channels, multiplier;                     // Channels of x, and channels of y for each of them
  int vector, lanes;                            // Adjacent channels of a thread, and adjacent threads of a tile
  int rows, columns;                            // Results of a thread; rows > 1 only if stride equals dilation
  int threads;                                  // Threads of a block

  constexpr int out_channels() const { return channels * multiplier; }
  constexpr int block_channels() const { return vector * lanes; }
  constexpr int channel_blocks() const { return (out_channels() + block_channels() - 1) / block_channels(); }
  constexpr int block_tiles() const { return threads / lanes; }
  constexpr int taps() const { return kernel[0] * kernel[1] * kernel[2]; }
  // Pixels of a row from the first to the last that a tile reads.
  constexpr int pixels() const { return (columns - 1) * stride + (kernel[2] - 1) * dilation + 1; }
  // Floats from one tap's weights to the next. One more vector than needed spreads a channel's taps over the banks.
  constexpr int tap_stride() const { return block_channels() + vector; }
};

// `row_tiles` and `column_tiles` are the tiles along these dimensions; `divisors` divide by out[0], by column_tiles
// and by row_tiles. Tiles below each other are adjacent, because they share more pixels than those of a row.
template <class Index> struct DepthwiseSizes {
  const char *x, *w;
  char* y;
  int in[3], out[3];
  Index tiles, row_tiles, column_tiles;
  u64 divisors[3];
};

// Position of a tile's first result.
struct TilePosition {
  int column, row, depth;
  i64 image;
};
template <DepthwiseShape c, class Index> RIDGE_FN TilePosition find_tile(const DepthwiseSizes<Index>& s, Index tile) {
  const Index line = divide_by(tile, s.divisors[2]), plane = divide_by(line, s.divisors[1]),
              image = divide_by(plane, s.divisors[0]);
  return {static_cast<int>(line - plane * s.column_tiles) * c.columns,
          static_cast<int>(tile - line * s.row_tiles) * c.rows, static_cast<int>(plane - image * s.out[0]),
          static_cast<i64>(image)};
}

// Stores the weights of a block's channels, from channel `first` on, in f32. Unrolling issues many loads together.
template <DepthwiseShape c> RIDGE_FN void load_weights(const char* w, int first, float* weights) {
  constexpr u32 taps = c.taps(), steps = (c.block_channels() * taps + c.threads - 1) / c.threads;
  const u32 channels = first + c.block_channels() < c.out_channels() ? c.block_channels() : c.out_channels() - first;
  const i64 from = static_cast<i64>(first) * c.taps() + threadIdx.x;
#pragma unroll 16
  for (u32 n = 0; n < steps; ++n) {
    const u32 i = n * c.threads + threadIdx.x;
    const float weight = read_one<c.w>(w, from + n * c.threads, i < channels * taps);
    if (i < channels * taps) weights[i % taps * c.tap_stride() + i / taps] = weight;
  }
}

// Returns a word whose first `count` bits are set; `count` may be negative or more than 32.
RIDGE_FN u32 first_bits(int count) {
  if (count >= 32) return ~0u;
  return count > 0 ? (1u << count) - 1 : 0;
}

// Loads the pixels of a row of x. Bit p of `exists` is set if pixel p exists; others are 0.
template <DepthwiseShape c>
RIDGE_FN void load_pixels(const char* row, u32 exists, Pack<c.x, c.vector> (&to)[c.pixels()]) {
#pragma unroll
  for (int p = 0; p < c.pixels(); ++p)
    to[p] = read<c.x, c.vector, c.vector, CachePolicy::cached>(row, static_cast<i64>(p) * c.channels, exists & 1u << p);
}
template <DepthwiseShape c>
RIDGE_FN void widen_pixels(const Pack<c.x, c.vector> (&from)[c.pixels()], float (&to)[c.pixels()][c.vector]) {
#pragma unroll
  for (int p = 0; p < c.pixels(); ++p)
#pragma unroll
    for (int v = 0; v < c.vector; ++v) to[p][v] = from[p][v];
}

// Adds the products of a row of the kernel. x[r] are the pixels that row r of the tile reads.
template <DepthwiseShape c> RIDGE_FN void add_kernel_row(const float* weights,
                                                         const float (&x)[c.rows][c.pixels()][c.vector],
                                                         float (&sums)[c.rows][c.columns][c.vector]) {
#pragma unroll
  for (int t = 0; t < c.kernel[2]; ++t) {
    float w[c.vector];
#pragma unroll
    for (int v = 0; v < c.vector; ++v) w[v] = weights[t * c.tap_stride() + v];
#pragma unroll
    for (int r = 0; r < c.rows; ++r)
#pragma unroll
      for (int o = 0; o < c.columns; ++o)
#pragma unroll
        for (int v = 0; v < c.vector; ++v)
          sums[r][o][v] = fmaf(x[r][o * c.stride + t * c.dilation][v], w[v], sums[r][o][v]);
  }
}

// Rows of a plane of x from the first one on that a tile reads. `row` may be negative, and `first` outside of x.
struct InputRows {
  const char* first;  // The tile's first pixel in this row
  i64 stride;         // In bytes
  int row, count;
  u32 exists;  // Bit p is set if pixel p of each row exists
  RIDGE_FN void advance(int rows) {
    first += rows * stride;
    row += rows;
  }
  RIDGE_FN u32 existing() const { return static_cast<u32>(row) < static_cast<u32>(count) ? exists : 0; }
};

// Adds the products of one plane of x and of the kernel. The next row is loaded before the previous ones are used. If
// the stride equals the dilation, what a row of the tile reads for one row of the kernel is what the row above reads
// for the next.
template <DepthwiseShape c>
RIDGE_FN void add_plane(InputRows from, const float* weights, float (&sums)[c.rows][c.columns][c.vector]) {
  constexpr int height = c.kernel[1], width = c.kernel[2];
  float x[c.rows][c.pixels()][c.vector];
  Pack<c.x, c.vector> next[c.pixels()];
#pragma unroll
  for (int r = 0; r < c.rows; ++r) {
    load_pixels<c>(from.first, from.existing(), next);
    if (r == c.rows - 1) break;
    widen_pixels<c>(next, x[r]);
    from.advance(c.stride);
  }
#pragma unroll c.rows
  for (int j = 0; j < height; ++j) {
    widen_pixels<c>(next, x[c.rows - 1]);
    from.advance(c.dilation);
    load_pixels<c>(from.first, j + 1 < height ? from.existing() : 0, next);
    add_kernel_row<c>(weights + j * (width * c.tap_stride()), x, sums);
#pragma unroll
    for (int r = 0; r + 1 < c.rows; ++r)
#pragma unroll
      for (int p = 0; p < c.pixels(); ++p)
#pragma unroll
        for (int v = 0; v < c.vector; ++v) x[r][p][v] = x[r + 1][p][v];
  }
}

// Computes a tile of the channels from `k` on, whose weights begin at `weights`.
template <DepthwiseShape c, class Index>
RIDGE_FN void compute_tile(const DepthwiseSizes<Index>& s, const TilePosition& at, int k, const float* weights) {
  const int column = at.column * c.stride - c.padding[2], row = at.row * c.stride - c.padding[1];
  const u32 exists = first_bits(s.in[2] - column) & ~first_bits(-column);
  float sums[c.rows][c.columns][c.vector] = {};
  for (int i = 0; i < c.kernel[0]; ++i) {
    const int depth = at.depth * c.stride + i * c.dilation - c.padding[0];
    const bool has_plane = static_cast<u32>(depth) < static_cast<u32>(s.in[0]);
    const i64 pixel = ((at.image * s.in[0] + depth) * s.in[1] + row) * s.in[2] + column;
    const InputRows rows{s.x + (pixel * c.channels + k / c.multiplier) * size_of<c.x>,
                         static_cast<i64>(s.in[2]) * (c.channels * size_of<c.x>), row, s.in[1], has_plane ? exists : 0};
    add_plane<c>(rows, weights + i * (c.kernel[1] * c.kernel[2] * c.tap_stride()), sums);
  }
  const i64 first = ((at.image * s.out[0] + at.depth) * s.out[1] + at.row) * s.out[2] + at.column;
#pragma unroll
  for (int r = 0; r < c.rows; ++r)
#pragma unroll
    for (int o = 0; o < c.columns; ++o)
      if (at.row + r < s.out[1] && at.column + o < s.out[2])
        write<c.y, c.vector, c.vector, CachePolicy::cached>(
            s.y, (first + static_cast<i64>(r) * s.out[2] + o) * c.out_channels() + k, sums[r][o]);
}

template <DepthwiseShape c, class Index>
RIDGE_FN void convolve_channels_last(const DepthwiseSizes<Index>& s, Index block) {
  alignas(8) __shared__ float weights[c.taps() * c.tap_stride()];
  const Index tiles = block / c.channel_blocks();
  const int first = static_cast<int>(block - tiles * c.channel_blocks()) * c.block_channels();
  load_weights<c>(s.w, first, weights);
  __syncthreads();
  const int lane = static_cast<int>(threadIdx.x) % c.lanes * c.vector,
            in_block = static_cast<int>(threadIdx.x) / c.lanes;
  const Index tile = tiles * c.block_tiles() + in_block;
  if (in_block < c.block_tiles() && first + lane < c.out_channels() && tile < s.tiles)
    compute_tile<c>(s, find_tile<c>(s, tile), first + lane, weights + lane);
}

}  // namespace ridge::ops::cuda
