// Code that the kernels of top-k and of sorting share on a device. For .cu files.
#pragma once

#include <span>

#include "ridge/ops/loops/cuda.h"
#include "ridge/ops/loops/device/loops.h"

namespace ridge::ops::cuda {

struct TopKRun {
  DeviceLoopAxes lines;
  DeviceFloats values;
  void* result;
  DType result_dtype;  // An integer if indices are stored
  bool ascending;
  std::int64_t extent, stride, result_stride;
  int count;
  __device__ std::uint32_t key(std::int64_t at) const;
  // Stores an element, or its index, of the line whose values begin at `line`.
  __device__ void store(std::int64_t at, std::int64_t line, std::int64_t index) const {
    switch (result_dtype) {
      case DType::int8: static_cast<std::int8_t*>(result)[at] = static_cast<std::int8_t>(index); return;
      case DType::int32: static_cast<std::int32_t*>(result)[at] = static_cast<std::int32_t>(index); return;
      default: break;
    }
    const float x = values(line + index * stride);
    if (result_dtype == DType::f32)
      static_cast<float*>(result)[at] = x;
    else if (result_dtype == DType::bf16)
      static_cast<Bf16*>(result)[at] = narrow<Bf16>(x);
    else
      static_cast<F16*>(result)[at] = narrow<F16>(x);
  }
};

// Returns a key that is ordered as the float, at least 1: NaN has the smallest. Adding 0 turns -0 to +0.
__device__ inline std::uint32_t ordered_key(float x) {
  constexpr std::uint32_t sign = 0x80000000, nan_key = 1;
  const std::uint32_t bits = __float_as_uint(x + 0.0f);
  const std::uint32_t key = (bits & sign) != 0 ? ~bits : bits | sign;
  return x != x ? nan_key : key;
}
// Returns the key of the element at an offset; the element that comes first has the largest key.
__device__ inline std::uint32_t TopKRun::key(std::int64_t at) const {
  const float x = values(at);
  return ordered_key(ascending ? -x : x);
}
// Returns a key by which equal elements are in the order of their indices, the first one largest.
__device__ inline std::uint64_t ranked_key(std::uint32_t key, std::int64_t index) {
  return static_cast<std::uint64_t>(key) << 32 | ~static_cast<std::uint32_t>(index);
}
__device__ inline std::uint32_t index_of(std::uint64_t key) { return ~static_cast<std::uint32_t>(key); }

// Sorts all lines and stores the first `count` indices of each. Lines of more than `max_block_line` elements need a
// workspace.
inline constexpr std::int64_t max_block_line = 8192;
std::size_t sort_workspace_bytes(const TopKLoops& l);
Status sort_lines(const TopKLoops& l, const TopKRun& run, const device::DeviceWorkspace& workspace,
                  CUstream_st* stream);

}  // namespace ridge::ops::cuda
