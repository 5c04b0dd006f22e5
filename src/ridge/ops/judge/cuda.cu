#include "ridge/ops/judge/cuda.h"

#include <cuda_runtime.h>

#include "ridge/ops/stored.h"
#include "ridge/tile/tile.h"
// tile.h must come first: it defines TILE_FN.
#include "ridge/tile/sm90/finish.h"

namespace ridge::ops::cuda {
namespace {

using tile::Stored;

constexpr int threads = 128;
constexpr double chance = 0.5e-3;  // Error of an f32 sum of k products of normal numbers, over sqrt(k)

struct Judged {
  std::int64_t m, n, k;
  bool a_transposed, b_transposed;
  Stored in, out;
  const void *a, *b;
};

__device__ double unit(Stored x) {
  if (x == Stored::f32) return 0x1p-24;
  return x == Stored::bf16 ? 0x1p-8 : 0x1p-11;
}
__device__ double get(Stored s, const void* data, std::int64_t i) { return tile::sm90::read_stored(s, data, i); }

__device__ std::uint32_t mixed(std::uint32_t h) {
  h ^= h >> 16;
  h *= 0x85ebca6bu;
  h ^= h >> 13;
  h *= 0xc2b2ae35u;
  h ^= h >> 16;
  return h;
}

// Each block checks one element, chosen by a hash. The error bound is 2k u |A||B| for the sum plus rounding to `out`.
__global__ void judge_samples_kernel(Judged p, const void* d, Comparison* verdict) {
  const std::int64_t r = mixed(blockIdx.x * 2654435761u + 5) % p.m, c = mixed(blockIdx.x * 2246822519u + 11) % p.n;
  double sum = 0, magnitude = 0;
  for (std::int64_t k = threadIdx.x; k < p.k; k += threads) {
    const double x = get(p.in, p.a, p.a_transposed ? k * p.m + r : r * p.k + k) *
                     get(p.in, p.b, p.b_transposed ? c * p.k + k : k * p.n + c);
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
  const double bound = 2.0 * static_cast<double>(p.k) * 0x1p-24 * magnitude,
               off = fabs(get(p.out, d, r * p.n + c) - sum);
  const double error = off / (bound + unit(p.out) * (fabs(sum) + bound));
  if (!(error <= 1)) atomicAdd(&verdict->sampled_wrong, 1u);
  if (!(off <= unit(p.out) * fabs(sum) + chance * sqrt(static_cast<double>(p.k)))) atomicAdd(&verdict->loose, 1u);
  if (error > 0) atomicMax(reinterpret_cast<int*>(&verdict->worst), __float_as_int(static_cast<float>(error)));
}

__global__ void judge_all_kernel(Judged p, const void* d, const void* theirs, Comparison* verdict) {
  const double slack = 2 * chance * sqrt(static_cast<double>(p.k));
  for (std::int64_t i = blockIdx.x * std::int64_t{blockDim.x} + threadIdx.x; i < p.m * p.n;
       i += std::int64_t{gridDim.x} * blockDim.x) {
    const double x = get(p.out, d, i), y = get(p.out, theirs, i);
    if (!(fabs(x - y) <= 2 * unit(p.out) * fabs(y) + slack)) atomicAdd(&verdict->differing, 1u);
  }
}

Judged on_device(const JudgedProduct& p) {
  return {p.m, p.n, p.k, p.a_transposed, p.b_transposed, stored(p.dtype), stored(p.out), p.a, p.b};
}
std::optional<std::string> launched() {
  const cudaError_t e = cudaGetLastError();
  return e == cudaSuccess ? std::nullopt : std::optional(std::string("checking a product: ") + cudaGetErrorString(e));
}

}  // namespace

std::optional<std::string> judge_samples(const JudgedProduct& p, const void* d, Comparison* verdict,
                                         CUstream_st* stream) {
  judge_samples_kernel<<<judged_samples, threads, 0, stream>>>(on_device(p), d, verdict);
  return launched();
}
std::optional<std::string> judge_all(const JudgedProduct& p, const void* d, const void* theirs, Comparison* verdict,
                                     CUstream_st* stream) {
  judge_all_kernel<<<2048, 256, 0, stream>>>(on_device(p), d, theirs, verdict);
  return launched();
}

}  // namespace ridge::ops::cuda
