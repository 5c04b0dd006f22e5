// Row functions on the device: generated kernels (row_source.cc), or, where no compiler is found or a row has more
// columns than registers hold, a block a row that reads it again where it is needed again, from the L1 or L2.
#include <cuda_runtime.h>

#include <algorithm>

#include "ridge/device/device.h"
#include "ridge/device/run_generated.h"
#include "ridge/ops/rows/cpu.h"
#include "ridge/ops/rows/cuda.h"
#include "ridge/ops/rows/source.h"
#include "ridge/ops/stored.h"
#include "ridge/tile/tile.h"
// After tile.h, which says what TILE_FN is.
#include "ridge/tile/sm90/finish.h"

namespace ridge::ops::cuda {
namespace {

using tile::Index, tile::Stored;

constexpr int threads = 256;

struct DeviceRows {
  RowFunction function;
  Index rows, columns, x_stride, y_stride;
  const void *x, *weight;
  void* y;
  Stored x_stored, y_stored, weight_stored;
  float epsilon;
};

// Over the block's threads, the same in each of them; f must not care for the order of NaNs.
template <class F> __device__ float over_block(float x, F f) {
  __shared__ float warps[threads / 32];
  for (int other = 16; other > 0; other /= 2) x = f(x, __shfl_xor_sync(0xffffffff, x, other));
  __syncthreads();  // the last call's values have been read
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = x;
  __syncthreads();
  x = warps[0];
  for (int i = 1; i < threads / 32; ++i) x = f(x, warps[i]);
  return x;
}

__global__ void __launch_bounds__(threads) rows_kernel(const __grid_constant__ DeviceRows p) {
  const auto larger = [](float a, float b) {
    if (a != a) return a;
    return b != b ? b : fmaxf(a, b);
  };
  const auto sum_of = [](float a, float b) { return a + b; };
  for (Index row = blockIdx.x; row < p.rows; row += gridDim.x) {
    const auto x = [&](Index i) { return tile::sm90::read_stored(p.x_stored, p.x, row * p.x_stride + i); };
    const auto put = [&](Index i, float v) {
      if (p.y_stored == Stored::f32)
        static_cast<float*>(p.y)[row * p.y_stride + i] = v;
      else
        static_cast<std::uint16_t*>(p.y)[row * p.y_stride + i] = tile::sm90::to_stored(p.y_stored, v);
    };
    float sum = 0;
    if (p.function == RowFunction::softmax) {
      float most = -INFINITY;
      for (Index i = threadIdx.x; i < p.columns; i += threads) most = larger(most, x(i));
      most = over_block(most, larger);
      for (Index i = threadIdx.x; i < p.columns; i += threads) sum += expf(x(i) - most);
      sum = over_block(sum, sum_of);
      for (Index i = threadIdx.x; i < p.columns; i += threads) put(i, expf(x(i) - most) / sum);
    } else {
      float mean = 0;
      if (p.function == RowFunction::layernorm) {
        for (Index i = threadIdx.x; i < p.columns; i += threads) mean += x(i);
        mean = over_block(mean, sum_of) / static_cast<float>(p.columns);
      }
      for (Index i = threadIdx.x; i < p.columns; i += threads) sum = fmaf(x(i) - mean, x(i) - mean, sum);
      sum = over_block(sum, sum_of);
      const float scale = 1 / sqrtf(sum / static_cast<float>(p.columns) + p.epsilon);
      for (Index i = threadIdx.x; i < p.columns; i += threads)
        put(i, (x(i) - mean) * scale * (p.weight ? tile::sm90::read_stored(p.weight_stored, p.weight, i) : 1.0f));
    }
  }
}

}  // namespace

std::optional<std::string> refuse(const RowProblem& problem) { return ops::refuse(problem); }

std::optional<std::string> refuse(const RowProgram& program) { return find_fault(program); }

std::optional<std::string> rows(const RowProgram& program, std::span<void* const> tensors, CUstream_st* stream) {
  return run(generate(program, tensors), stream);
}

std::optional<std::string> rows(const RowProblem& p, const void* x, const void* weight, void* y, CUstream_st* stream) {
  if (p.rows == 0 || p.columns == 0) return std::nullopt;
  const RowProgram program = row_program(p, weight != nullptr && p.function != RowFunction::softmax);
  if (!cannot_generate() && !find_fault(program)) {
    std::vector<void*> data{const_cast<void*>(x)};
    if (program.tensors.size() > 2) data.push_back(const_cast<void*>(weight));
    data.push_back(y);
    return run(generate(program, data), stream);
  }
  const DeviceRows d{p.function, p.rows, p.columns,         p.x.row_stride,    p.y.row_stride,   x,
                     weight,     y,      stored(p.x.dtype), stored(p.y.dtype), stored(p.weight), p.epsilon};
  rows_kernel<<<static_cast<unsigned>(std::min<Index>(p.rows, 8 * multiprocessors())), threads, 0, stream>>>(d);
  const cudaError_t e = cudaGetLastError();
  if (e == cudaSuccess) return std::nullopt;
  return std::string("launching a row function: ") + cudaGetErrorString(e);
}

}  // namespace ridge::ops::cuda
