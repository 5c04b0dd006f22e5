#include "ridge/device/peak.h"

#include <cuda_runtime.h>

#include "ridge/device/cuda_status.h"

namespace ridge::device {
namespace {

constexpr int threads = 512, loads_in_flight = 4;  // 16-byte loads that a thread keeps in flight.

// Calls f(i, j) for every 16-byte vector i; j < loads_in_flight numbers the iterations that run together.
template <class F> __device__ void for_each_vector(std::int64_t vectors, F f) {
  const std::int64_t stride = std::int64_t{gridDim.x} * threads;
  std::int64_t i = blockIdx.x * std::int64_t{threads} + threadIdx.x;
  for (; i + (loads_in_flight - 1) * stride < vectors; i += loads_in_flight * stride)
#pragma unroll
    for (int j = 0; j < loads_in_flight; ++j) f(i + j * stride, j);
  for (; i < vectors; i += stride) f(i, 0);
}

__global__ void __launch_bounds__(threads) read_kernel(int* to, const int4* from, std::int64_t vectors, int repeats) {
  int sums[loads_in_flight] = {};
  for (int repeat = 0; repeat < repeats; ++repeat)
    for_each_vector(vectors, [&](std::int64_t i, int j) {
      int4 x;
      asm volatile("ld.global.cg.v4.s32 {%0, %1, %2, %3}, [%4];"
                   : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w)
                   : "l"(from + i));
      sums[j] ^= x.x ^ x.y ^ x.z ^ x.w;
    });
  const int all = sums[0] ^ sums[1] ^ sums[2] ^ sums[3];
  if (all == 0x5eed1234) *to = all;  // Practically never true; keeps the compiler from removing the loads.
}
__global__ void __launch_bounds__(threads) write_kernel(int4* to, std::int64_t vectors) {
  for_each_vector(vectors, [&](std::int64_t i, int) { __stcs(to + i, make_int4(1, 2, 3, 4)); });
}
__global__ void __launch_bounds__(threads) copy_kernel(int4* to, const int4* from, std::int64_t vectors) {
  const std::int64_t stride = std::int64_t{gridDim.x} * threads;
  std::int64_t i = blockIdx.x * std::int64_t{threads} + threadIdx.x;
  for (; i + (loads_in_flight - 1) * stride < vectors; i += loads_in_flight * stride) {
    int4 x[loads_in_flight];
#pragma unroll
    for (int j = 0; j < loads_in_flight; ++j) x[j] = __ldcs(from + i + j * stride);
#pragma unroll
    for (int j = 0; j < loads_in_flight; ++j) __stcs(to + i + j * stride, x[j]);
  }
  for (; i < vectors; i += stride) to[i] = from[i];
}

// Sixteen independent accumulators per thread hide the latency of an FMA.
__global__ void __launch_bounds__(threads) multiply_add_kernel(int rounds, float factor, float* unused) {
  float x[16];
  for (int i = 0; i < 16; ++i) x[i] = static_cast<float>(threadIdx.x + i);
  for (int round = 0; round < rounds; ++round)
#pragma unroll
    for (int i = 0; i < multiply_adds_per_round; ++i) x[i % 16] = fmaf(x[i % 16], factor, 1.0f);
  float sum = 0;
  for (const float each : x) sum += each;
  if (unused != nullptr) *unused = sum;
}

__global__ void empty_kernel() {}

Status launch_status() { return to_status(cudaGetLastError(), "launching a probe"); }

}  // namespace

Status launch_read(const StreamedBuffers& x, int blocks, CUstream_st* stream) {
  read_kernel<<<static_cast<unsigned>(blocks), threads, 0, stream>>>(
      static_cast<int*>(x.to), static_cast<const int4*>(x.from), x.bytes / 16, x.repeats);
  return launch_status();
}
Status launch_write(const StreamedBuffers& x, int blocks, CUstream_st* stream) {
  write_kernel<<<static_cast<unsigned>(blocks), threads, 0, stream>>>(static_cast<int4*>(x.to), x.bytes / 16);
  return launch_status();
}
Status launch_copy(const StreamedBuffers& x, int blocks, CUstream_st* stream) {
  copy_kernel<<<static_cast<unsigned>(blocks), threads, 0, stream>>>(static_cast<int4*>(x.to),
                                                                     static_cast<const int4*>(x.from), x.bytes / 16);
  return launch_status();
}
Status launch_fma(int rounds, int blocks, CUstream_st* stream) {
  multiply_add_kernel<<<static_cast<unsigned>(blocks), threads, 0, stream>>>(rounds, 0.999f, nullptr);
  return launch_status();
}
Status launch_empty_kernel(CUstream_st* stream) {
  empty_kernel<<<1, 32, 0, stream>>>();
  return launch_status();
}

}  // namespace ridge::device
