// A block copies a tile of pixels x channels of a line through shared memory: threads read along the source's
// contiguous axis and write along the result's.
#include <cuda_runtime.h>

#include "ridge/base/ceil_div.h"
#include "ridge/device/cuda_status.h"
#include "ridge/device/launch_kernel.h"
#include "ridge/ops/product/windows/image_copy.h"

namespace ridge::ops::cuda {
namespace {

constexpr int threads = 256, tile_elements = max_tile_pixels * min_tile_channels;

struct ImageTiles {
  std::int64_t pixels, channels, all;  // number of tiles along each axis, and of all images and lines
};

__device__ int clamp_to_tile(std::int64_t x) {
  if (x < 0) return 0;
  return x < tile_elements ? static_cast<int>(x) : tile_elements;
}

template <class Word, int tile_pixels, bool reads_along_pixels, bool writes_along_pixels>
__global__ void __launch_bounds__(threads, 4)
    copy_images_kernel(const __grid_constant__ ImageCopy p, ImageTiles tiles, const Word* from, Word* to) {
  constexpr int tile_channels = tile_elements / tile_pixels, each = tile_elements / threads;
  constexpr int pitch = tile_pixels + 4 / static_cast<int>(sizeof(Word));  // an odd number of 4-byte banks
  __shared__ Word tile[tile_channels * pitch];
  // Returns the pixel and the channel in the tile of a thread's element.
  const auto position = [](bool along_pixels, int i) {
    const int e = threadIdx.x + i * threads;
    return along_pixels ? int2{e % tile_pixels, e / tile_pixels} : int2{e / tile_channels, e % tile_channels};
  };
  const std::int64_t t = blockIdx.x, rest = t / tiles.channels, line = rest / tiles.pixels;
  const std::int64_t first_channel = t % tiles.channels * tile_channels,
                     first_pixel = rest % tiles.pixels * tile_pixels, image = line / p.lines;
  // The tile's part of the source and of the result, and offsets in them, which fit in 32 bits.
  const Word* const source = from + image * p.from[0] + (line - image * p.lines) * p.from[1] +
                             (first_pixel - p.first_pixel) * p.from[2] + first_channel * p.from[3];
  Word* const result =
      to + image * p.to[0] + (line - image * p.lines) * p.to[1] + first_pixel * p.to[2] + first_channel * p.to[3];
  const int before = clamp_to_tile(p.first_pixel - first_pixel),
            pixels = clamp_to_tile(p.first_pixel + p.pixels - first_pixel),
            channels = clamp_to_tile(p.channels - first_channel), to_pixels = clamp_to_tile(p.to_pixels - first_pixel),
            to_channels = clamp_to_tile(p.to_channels - first_channel);
  const int from_pixel = static_cast<int>(p.from[2]), from_channel = static_cast<int>(p.from[3]),
            to_pixel = static_cast<int>(p.to[2]), to_channel = static_cast<int>(p.to[3]);
  Word values[each];
#pragma unroll
  for (int i = 0; i < each; ++i) {
    const int2 at = position(reads_along_pixels, i);
    values[i] =
        at.x >= before && at.x < pixels && at.y < channels ? source[at.x * from_pixel + at.y * from_channel] : Word{0};
  }
#pragma unroll
  for (int i = 0; i < each; ++i) {
    const int2 at = position(reads_along_pixels, i);
    tile[at.y * pitch + at.x] = values[i];
  }
  __syncthreads();
#pragma unroll
  for (int i = 0; i < each; ++i) {
    const int2 at = position(writes_along_pixels, i);
    if (at.x < to_pixels && at.y < to_channels) result[at.x * to_pixel + at.y * to_channel] = tile[at.y * pitch + at.x];
  }
}

template <class Word, int tile_pixels>
cudaError_t launch_copy(const ImageCopy& p, const void* from, void* to, cudaStream_t stream) {
  ImageTiles tiles{ceil_div(p.to_pixels, std::int64_t{tile_pixels}),
                   ceil_div(p.to_channels, std::int64_t{tile_elements / tile_pixels}), 0};
  tiles.all = p.images * p.lines * tiles.pixels * tiles.channels;
  if (tiles.all == 0) return cudaSuccess;
  const device::LaunchShape shape{.blocks = tiles.all, .threads = threads};
  const auto launch = [&](auto kernel) {
    return device::launch_kernel(kernel, shape, device::LaunchOrder::after_earlier_kernels, stream, p, tiles,
                                 static_cast<const Word*>(from), static_cast<Word*>(to));
  };
  const bool reads_along_pixels = p.from[2] < p.from[3], writes_along_pixels = p.to[2] < p.to[3];
  if (reads_along_pixels)
    return launch(writes_along_pixels ? copy_images_kernel<Word, tile_pixels, true, true>
                                      : copy_images_kernel<Word, tile_pixels, true, false>);
  return launch(writes_along_pixels ? copy_images_kernel<Word, tile_pixels, false, true>
                                    : copy_images_kernel<Word, tile_pixels, false, false>);
}

// Chooses the shape of the tiles: few channels or few pixels would leave most of a square tile empty.
template <class Word> cudaError_t copy_with_words(const ImageCopy& p, const void* from, void* to, cudaStream_t stream) {
  if (p.to_channels <= 4) return launch_copy<Word, 1024>(p, from, to, stream);
  if (p.to_channels <= 8) return launch_copy<Word, 512>(p, from, to, stream);
  return p.to_pixels <= 16 ? launch_copy<Word, 16>(p, from, to, stream) : launch_copy<Word, 64>(p, from, to, stream);
}

}  // namespace

Status copy_images(const ImageCopy& p, const void* from, void* to, CUstream_st* stream) {
  const cudaError_t launched = dtype_bits(p.dtype) == 16 ? copy_with_words<std::uint16_t>(p, from, to, stream)
                                                         : copy_with_words<std::uint32_t>(p, from, to, stream);
  return device::to_status(launched, "copying images to another order of memory");
}

}  // namespace ridge::ops::cuda
