#include "ridge/ops/verify/cuda.h"

#include <cuda_runtime.h>

#include "ridge/base/block_scale.h"
#include "ridge/base/operand_type.h"
#include "ridge/device/cuda_status.h"
#include "ridge/tile/tile.h"
// tile.h must come first: it defines TILE_FN.
#include "ridge/tile/sm90/epilogue.h"

namespace ridge::ops::cuda {
namespace {

using tile::StorageFormat;

constexpr int threads = 128;
constexpr double typical_error = 0.5e-3;  // Typical error of an f32 sum of k products of normal numbers, over sqrt(k)
// The same of products whose operands lose bits: those of tf32 lose 13, and sums of e4m3 have 13.
constexpr double narrow_typical_error = 10e-3, narrow_operand_error = 0x1p-9;

template <class T> inline constexpr double unit_roundoff_of = 0;
template <> inline constexpr double unit_roundoff_of<Bf16> = 0x1p-8;
template <> inline constexpr double unit_roundoff_of<F16> = 0x1p-11;

struct DeviceProduct {
  std::int64_t m, n, k;
  bool a_transposed, b_transposed;
  StorageFormat in, out;
  bool has_block_scales;  // True for e4m3_128, whose scales follow the elements
  const void *a, *b;
  double product_error, absolute_error;  // Relative to the magnitudes of the products of a sum; absolute
  double typical_error;                  // Relative to sqrt(k)
};

__device__ double unit_roundoff(StorageFormat x) {
  if (x == StorageFormat::int32) return 0;
  if (x == StorageFormat::f32) return 0x1p-24;
  return tile::sm90::dispatch_sixteen_bits(x, [&]<class T>() { return unit_roundoff_of<T>; });
}
__device__ double read_value(StorageFormat s, const void* data, std::int64_t i) {
  if (s == StorageFormat::int8) return static_cast<const std::int8_t*>(data)[i];
  if (s == StorageFormat::int32) return static_cast<const std::int32_t*>(data)[i];
  return tile::sm90::read_stored(s, data, i);
}

// Returns element i of an operand of `elements`.
__device__ double read_operand(const DeviceProduct& p, const void* data, std::int64_t i, std::int64_t elements) {
  const double x = read_value(p.in, data, i);
  if (!p.has_block_scales) return x;
  const char* const scale = static_cast<const char*>(data) + BlockPlanes<DType::e4m3_128>::scale_offset(i, elements);
  return x * *reinterpret_cast<const float*>(scale);
}

__device__ std::uint32_t hash_bits(std::uint32_t h) {
  h ^= h >> 16;
  h *= 0x85ebca6bu;
  h ^= h >> 13;
  h *= 0xc2b2ae35u;
  h ^= h >> 16;
  return h;
}

// Each block checks one element, chosen by a hash. The error bound is 2k u |A||B| for a sum in f32, which has none for
// integers, plus rounding to `out`.
__global__ void verify_samples_kernel(DeviceProduct p, const void* d, CheckCounters* counters) {
  const std::int64_t r = hash_bits(blockIdx.x * 2654435761u + 5) % p.m,
                     c = hash_bits(blockIdx.x * 2246822519u + 11) % p.n;
  double sum = 0, magnitude = 0;
  for (std::int64_t k = threadIdx.x; k < p.k; k += threads) {
    const double x = read_operand(p, p.a, p.a_transposed ? k * p.m + r : r * p.k + k, p.m * p.k) *
                     read_operand(p, p.b, p.b_transposed ? c * p.k + k : k * p.n + c, p.n * p.k);
    sum += x;
    magnitude += fabs(x);
  }
  __shared__ double sums[threads], magnitudes[threads];
  sums[threadIdx.x] = sum;
  magnitudes[threadIdx.x] = magnitude;
  __syncthreads();
  if (threadIdx.x != 0) return;
  sum = magnitude = 0;
  for (int i = 0; i < threads; ++i) {
    sum += sums[i];
    magnitude += magnitudes[i];
  }
  const double bound = p.product_error * magnitude + p.absolute_error,
               difference = fabs(read_value(p.out, d, r * p.n + c) - sum);
  const double error = difference / (bound + unit_roundoff(p.out) * (fabs(sum) + bound));
  if (!(error <= 1)) atomicAdd(&counters->sampled_wrong, 1u);
  if (!(difference <= unit_roundoff(p.out) * fabs(sum) + p.typical_error * sqrt(static_cast<double>(p.k))))
    atomicAdd(&counters->above_typical_error, 1u);
  if (error > 0)
    atomicMax(reinterpret_cast<int*>(&counters->max_error_ratio), __float_as_int(static_cast<float>(error)));
}

__global__ void verify_all_kernel(DeviceProduct p, const void* d, const void* library_d, CheckCounters* counters) {
  const double tolerance = 2 * p.typical_error * sqrt(static_cast<double>(p.k));
  for (std::int64_t i = blockIdx.x * std::int64_t{blockDim.x} + threadIdx.x; i < p.m * p.n;
       i += std::int64_t{gridDim.x} * blockDim.x) {
    const double x = read_value(p.out, d, i), y = read_value(p.out, library_d, i);
    if (!(fabs(x - y) <= 2 * unit_roundoff(p.out) * fabs(y) + tolerance)) atomicAdd(&counters->differing, 1u);
  }
}

DeviceProduct to_device_product(const CheckedProduct& p) {
  const bool has_block_scales = p.dtype == DType::e4m3_128,
             is_narrow = p.dtype == DType::tf32 || p.dtype == DType::e4m3 || has_block_scales;
  DeviceProduct out{p.size.m,
                    p.size.n,
                    p.size.k,
                    p.a_transposed,
                    p.b_transposed,
                    tile::to_storage_format(has_block_scales ? DType::e4m3 : p.dtype),
                    tile::to_storage_format(p.out),
                    has_block_scales,
                    p.a,
                    p.b,
                    2.0 * static_cast<double>(p.size.k) * 0x1p-24 + (is_narrow ? narrow_operand_error : 0),
                    0,
                    is_narrow ? narrow_typical_error : typical_error};
  if (has_integer_sums(p.dtype)) out.product_error = 0x1p-24;  // Rounded once, to f32
  if (p.out == DType::int32) {                                 // A difference is at least 1
    out.product_error = out.typical_error = 0;
    out.absolute_error = 0.5;
  }
  return out;
}
Status launch_status() { return device::to_status(cudaGetLastError(), "checking a product"); }

}  // namespace

Status verify_samples(const CheckedProduct& p, const void* d, CheckCounters* counters, CUstream_st* stream) {
  verify_samples_kernel<<<verified_samples, threads, 0, stream>>>(to_device_product(p), d, counters);
  return launch_status();
}
Status verify_all(const CheckedProduct& p, const void* d, const void* library_d, CheckCounters* counters,
                  CUstream_st* stream) {
  verify_all_kernel<<<2048, 256, 0, stream>>>(to_device_product(p), d, library_d, counters);
  return launch_status();
}

}  // namespace ridge::ops::cuda
