// Code that the CUDA kernels of the loops share: axes, indices and elements on the device. For .cu files.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "ridge/base/dtype_set.h"
#include "ridge/device/cuda_status.h"
#include "ridge/device/device.h"
#include "ridge/device/launch_kernel.h"
#include "ridge/device/workspace.h"
#include "ridge/ops/function/device_math.h"
#include "ridge/ops/loops/device/limits.h"
#include "ridge/ops/loops/lines.h"
#include "ridge/ops/loops/problem.h"
// Must follow device_math.h, which defines RIDGE_FN.
#include "ridge/tile/cuda/vector_access.h"

namespace ridge::ops::cuda {

using tile::cuda::CachePolicy;
using tile::cuda::NumberFormat;
using tile::cuda::Pack;

// The axes of a loop; strides have the unit in which the kernel counts.
struct DeviceLoopAxes {
  int count = 0;
  std::int64_t points = 1;
  std::int64_t extents[max_device_axes] = {}, values[max_device_axes] = {}, indices[max_device_axes] = {},
               result[max_device_axes] = {};
};
inline DeviceLoopAxes make_device_axes(const std::vector<LoopAxis>& axes) {
  DeviceLoopAxes out{.count = static_cast<int>(axes.size()), .points = count_points(axes)};
  for (std::size_t i = 0; i < axes.size(); ++i) {
    out.extents[i] = axes[i].extent;
    out.values[i] = axes[i].values;
    out.indices[i] = axes[i].indices;
    out.result[i] = axes[i].result;
  }
  return out;
}

// Returns n / d for n >= 0 and d > 0; a division of 32-bit numbers takes a fraction of the instructions.
__device__ inline std::int64_t divide(std::int64_t n, std::int64_t d) {
  if ((n | d) >> 32 == 0) return static_cast<unsigned>(n) / static_cast<unsigned>(d);
  return n / d;
}

struct DeviceOffsets {
  std::int64_t values = 0, indices = 0, result = 0;
};
__device__ inline DeviceOffsets offsets_at(const DeviceLoopAxes& axes, std::int64_t point) {
  DeviceOffsets at;
  for (int i = axes.count - 1; i >= 0; --i) {
    const std::int64_t rest = i > 0 ? divide(point, axes.extents[i]) : 0, index = point - rest * axes.extents[i];
    at.values += index * axes.values[i];
    at.indices += index * axes.indices[i];
    at.result += index * axes.result[i];
    point = rest;
  }
  return at;
}

struct DeviceIndices {
  const void* data;
  bool are_bytes;
  __device__ std::int64_t operator()(std::int64_t i) const {
    return are_bytes ? static_cast<const std::int8_t*>(data)[i] : static_cast<const std::int32_t*>(data)[i];
  }
};

__device__ inline float widen(float x) { return x; }
__device__ inline float widen(Bf16 x) { return to_float(x); }
__device__ inline float widen(F16 x) {
  const std::uint32_t word = x.bits;
  return tile::cuda::unpack<NumberFormat::f16>(&word, 0);
}
template <class T> __device__ T narrow(float x) {
  if constexpr (std::is_same_v<T, Bf16>)
    return {tile::cuda::round_to<NumberFormat::bf16>(x)};
  else if constexpr (std::is_same_v<T, F16>)
    return {tile::cuda::round_to<NumberFormat::f16>(x)};
  else
    return static_cast<T>(x);
}

// Elements of f32, bf16 or f16, whose dtype is the same for all threads.
struct DeviceFloats {
  const void* data;
  DType dtype;
  __device__ float operator()(std::int64_t i) const {
    if (dtype == DType::f32) return static_cast<const float*>(data)[i];
    if (dtype == DType::bf16) return widen(static_cast<const Bf16*>(data)[i]);
    return widen(static_cast<const F16*>(data)[i]);
  }
};

// Stores packs of contiguous elements of f32, bf16 or f16; each access has up to 16 bytes.
struct DevicePacks {
  char* data;
  DType dtype;
  template <int W> __device__ void store(std::int64_t at, const float (&x)[W]) const {
    if (dtype == DType::f32) return store_as<NumberFormat::f32>(at, x);
    if (dtype == DType::bf16) return store_as<NumberFormat::bf16>(at, x);
    store_as<NumberFormat::f16>(at, x);
  }
  template <NumberFormat to, int W> __device__ void store_as(std::int64_t at, const float (&x)[W]) const {
    constexpr int width = std::min(W, 16 / tile::cuda::size_of<to>);
    tile::cuda::write<to, W, width, CachePolicy::cached>(data, at, x);
  }
};

// Calls f.operator()<format>() with the format of f32, bf16 or f16.
template <class F> void with_format(DType dtype, const F& f) {
  if (dtype == DType::f32) return f.template operator()<NumberFormat::f32>();
  if (dtype == DType::bf16) return f.template operator()<NumberFormat::bf16>();
  f.template operator()<NumberFormat::f16>();
}

// Returns the bytes of the widest word, at most 16, that divides all of these addresses and distances in bytes.
inline int widest_word(std::initializer_list<const void*> addresses, const std::vector<std::int64_t>& distances) {
  std::uint64_t bits = 16;
  for (const void* address : addresses) bits |= reinterpret_cast<std::uintptr_t>(address);
  for (const std::int64_t distance : distances) bits |= static_cast<std::uint64_t>(distance);
  return static_cast<int>(bits & (~bits + 1));
}

// Returns the elements of 16 bytes of f32, bf16 or f16.
inline int pack_width(DType dtype) { return 16 * 8 / dtype_bits(dtype); }
// True if packs of `width` elements, at these distances in elements, are aligned to accesses of up to 16 bytes.
inline bool fits_packs(DType dtype, const void* address, std::vector<std::int64_t> distances, int width) {
  const std::int64_t bytes = dtype_bits(dtype) / 8;
  for (std::int64_t& distance : distances) distance *= bytes;
  return widest_word({address}, distances) >= std::min<std::int64_t>(16, width * bytes);
}

inline unsigned blocks_for(std::int64_t items, std::int64_t items_per_block) {
  return static_cast<unsigned>((items + items_per_block - 1) / items_per_block);
}

}  // namespace ridge::ops::cuda
