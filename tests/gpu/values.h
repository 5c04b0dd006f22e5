// Pseudo-random values for operands: a hash of the index, as a small integer or a standard normal number.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include "ridge/base/block_scale.h"
#include "support.h"

namespace ridge::gpu {

enum class ValueKind : int { integers, normal };

__device__ inline std::uint32_t hash_index(std::uint64_t i, std::uint32_t seed) {
  std::uint32_t h = static_cast<std::uint32_t>(i) * 2654435761u ^ seed ^ static_cast<std::uint32_t>(i >> 32) * 40503u;
  h ^= h >> 16;
  h *= 0x85ebca6bu;
  h ^= h >> 13;
  h *= 0xc2b2ae35u;
  h ^= h >> 16;
  return h;
}
__device__ inline float random_value(ValueKind kind, std::uint64_t i, std::uint32_t seed) {
  const std::uint32_t h = hash_index(i, seed), g = hash_index(h, seed + 77);
  if (kind == ValueKind::integers)
    return static_cast<float>(static_cast<int>(h >> 7) % 5 - 2 + 0 * static_cast<int>(g));
  const float u = static_cast<float>((h >> 8) + 1) * (1.0f / 16777217.0f),
              v = static_cast<float>(g >> 8) * (1.0f / 16777216.0f);
  return sqrtf(-2.f * logf(u)) * cospif(2.f * v);
}
// `elements` is the number of elements of a tensor of e4m3_128, whose scales follow them.
__device__ inline void write_element(ElementFormat format, void* data, std::int64_t i, float x,
                                     std::int64_t elements = 0) {
  if (format == ElementFormat::f32) static_cast<float*>(data)[i] = x;
  if (format == ElementFormat::bf16) static_cast<__nv_bfloat16*>(data)[i] = __float2bfloat16(x);
  if (format == ElementFormat::e4m3) static_cast<__nv_fp8_e4m3*>(data)[i] = __nv_fp8_e4m3(x);
  if (format == ElementFormat::f16) static_cast<__half*>(data)[i] = __float2half(x);
  if (format == ElementFormat::int8)
    static_cast<signed char*>(data)[i] = static_cast<signed char>(max(-128, min(127, __float2int_rn(x))));
  if (format == ElementFormat::e4m3_128) {
    char* const bytes = static_cast<char*>(data);
    reinterpret_cast<__nv_fp8_e4m3*>(bytes)[i] = __nv_fp8_e4m3(x);
    // Scales have few bits, so that sums of integers are exact. Depending on the number of elements, they differ from
    // line to line, or many lines share them, for all blocks or for each block.
    constexpr std::int64_t block = BlockPlanes<DType::e4m3_128>::block;
    if (i % block == 0) {
      const std::int64_t periods[] = {elements / block, 1, 2, 3}, period = periods[elements / block % 4];
      const std::int64_t number = period == 1 ? i / block / 512 : i / block % period;
      *reinterpret_cast<float*>(bytes + BlockPlanes<DType::e4m3_128>::scale_offset(i, elements)) =
          0.5f + static_cast<float>(number % 3) * 0.25f;
    }
  }
}
__device__ inline double read_element(ElementFormat format, const void* data, std::int64_t i,
                                      std::int64_t elements = 0) {
  if (format == ElementFormat::f32) return static_cast<const float*>(data)[i];
  if (format == ElementFormat::int8) return static_cast<const signed char*>(data)[i];
  if (format == ElementFormat::int32) return static_cast<const int*>(data)[i];
  if (format == ElementFormat::e4m3_128) {
    const char* const bytes = static_cast<const char*>(data);
    return double{*reinterpret_cast<const float*>(bytes + BlockPlanes<DType::e4m3_128>::scale_offset(i, elements))} *
           float(reinterpret_cast<const __nv_fp8_e4m3*>(bytes)[i]);
  }
  if (format == ElementFormat::e4m3) return float(static_cast<const __nv_fp8_e4m3*>(data)[i]);
  if (format == ElementFormat::bf16) return __bfloat162float(static_cast<const __nv_bfloat16*>(data)[i]);
  return __half2float(static_cast<const __half*>(data)[i]);
}

}  // namespace ridge::gpu
