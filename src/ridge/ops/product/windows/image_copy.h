// Copies images to another order of memory on a device, for convolutions: channels first to last and back, with pixels
// and channels of zeros added at the ends. Reads and writes are contiguous in both orders.
#pragma once

#include <array>
#include <cstdint>

#include "ridge/base/dtype.h"
#include "ridge/base/reason.h"
#include "ridge/base/result.h"
#include "ridge/ops/model.h"

struct CUstream_st;

namespace ridge::ops {

// Element (image, line, pixel, channel) of the result is that of the source, or 0 where the source has none. Strides
// are those of image, line, pixel and channel, in elements. `images` to `channels` are the source's sizes; its pixels
// are the result's from `first_pixel` on. The dtype has 16 or 32 bits.
struct ImageCopy {
  DType dtype = DType::bf16;
  std::int64_t images = 1, lines = 1, pixels = 1, channels = 1;
  std::array<std::int64_t, 4> from{}, to{};
  std::int64_t first_pixel = 0, to_pixels = 1, to_channels = 1;
  std::int64_t bytes_moved() const {
    return images * lines * (pixels * channels + to_pixels * to_channels) * dtype_bits(dtype) / 8;
  }
  // True if the kernel can address the elements of a tile.
  bool is_addressable() const;
  bool operator==(const ImageCopy&) const = default;
};

// Tiles have 4096 elements.
inline constexpr int max_tile_pixels = 1024, min_tile_channels = 4, max_tile_channels = 256;
inline bool ImageCopy::is_addressable() const {
  const auto fits = [](const std::array<std::int64_t, 4>& strides) {
    constexpr std::int64_t max_stride = INT32_MAX / (max_tile_pixels + max_tile_channels);
    return strides[2] <= max_stride && strides[3] <= max_stride;
  };
  return fits(from) && fits(to);
}

inline Reason unsupported_reason(const ImageCopy&) { return "images are copied to another order only on a device"; }
inline CpuForecast cpu_forecast(const ImageCopy&, int) { return {.kernel = "image copy"}; }
inline Result<Forecast> forecast(const ImageCopy& copy, const DeviceNumbers& device) {
  return forecast_streamed("image_copy", static_cast<double>(copy.bytes_moved()), 0, device);
}

namespace cuda {
inline Reason unsupported_reason(const ImageCopy& copy) {
  return copy.is_addressable() ? Reason() : Reason("the images have too many pixels for a copy to another order");
}
// Queues the copy.
Status copy_images(const ImageCopy& copy, const void* from, void* to, CUstream_st* stream);
}  // namespace cuda

}  // namespace ridge::ops
