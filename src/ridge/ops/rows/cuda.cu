// Row functions on the device: generated kernels (source.cc). If there is no compiler, or a row exceeds the registers,
// a block processes a row and reads it again in each pass, from the L1 or L2.
#include <cuda_runtime.h>

#include <algorithm>

#include "ridge/device/device.h"
#include "ridge/device/run_generated.h"
#include "ridge/ops/rows/cpu.h"
#include "ridge/ops/rows/cuda.h"
#include "ridge/ops/rows/source.h"
#include "ridge/ops/rows/texts.h"
#include "ridge/ops/stored.h"
#include "ridge/tile/tile.h"
// Must follow tile.h, which defines TILE_FN.
#include "ridge/tile/sm90/finish.h"

namespace ridge::ops::cuda {
namespace {

using tile::Index, tile::Stored;

constexpr int threads = 256;

struct DeviceRows {
  Index rows, columns, x_stride, y_stride;
  const void *x, *weight;
  void* y;
  Stored x_stored, y_stored, weight_stored;
  float epsilon;
};

// A thread's view of a row that is not kept in registers: each pass reads it again.
struct Lane {
  static constexpr int at_once = 4;
  const DeviceRows& p;
  Index row;
  TILE_FN Index place(Index i) const { return i * threads + threadIdx.x; }
  TILE_FN Index count() const { return (p.columns + threads - 1) / threads; }
  TILE_FN bool inside(Index i) const { return place(i) < p.columns; }
  TILE_FN float at(Index column) const { return tile::sm90::read_stored(p.x_stored, p.x, row * p.x_stride + column); }
  TILE_FN float read(Index i) const { return at(place(i)); }
  TILE_FN float weight(Index i) const {
    return p.weight != nullptr ? tile::sm90::read_stored(p.weight_stored, p.weight, place(i)) : 1;
  }
  TILE_FN void write(Index i, float x) const {
    const Index to = row * p.y_stride + place(i);
    if (p.y_stored == Stored::f32)
      static_cast<float*>(p.y)[to] = x;
    else
      static_cast<std::uint16_t*>(p.y)[to] = tile::sm90::to_stored(p.y_stored, x);
  }
  template <class F, int> __device__ float over(float x) const {
    __shared__ float warps[threads / 32];
    __syncthreads();  // All threads have read the last call's values.
    return device::of_block<F, threads / 32>(x, warps);
  }
  template <int> TILE_FN float first() const { return at(0); }
};

template <class Text> __global__ void __launch_bounds__(threads) rows_kernel(const DeviceRows p) {
  typename Text::Globals g{};
  if constexpr (device::has_doubts<Text>) {
    g.share = 1 / static_cast<float>(p.columns);
    g.epsilon = p.epsilon;
  }
  for (Index row = blockIdx.x; row < p.rows; row += gridDim.x) {
    Lane lane{p, row};
    device::LoopedRow<Lane> all{lane};
    device::go_through<Text, 0, true>(all, g);
  }
}
using Kernel = void (*)(DeviceRows);
Kernel kernel_of(RowFunction function) {
  switch (function) {
    case RowFunction::rmsnorm: return rows_kernel<Rmsnorm<float, float, float>>;
    case RowFunction::layernorm: return rows_kernel<Layernorm<float, float, float>>;
    default: return rows_kernel<Softmax<float, float>>;
  }
}

}  // namespace

std::optional<std::string> refuse(const RowProblem& p) {
  if (auto why = ops::refuse(p)) return why;
  if (p.function <= RowFunction::layernorm) return std::nullopt;
  return find_fault(row_program(p, is_weighted(p.function)));
}

std::optional<std::string> refuse(const RowProgram& program) { return find_fault(program); }

std::optional<std::string> rows(const RowProgram& program, std::span<void* const> tensors, CUstream_st* stream) {
  return run(generate(program, tensors, multiprocessors_in_full()), stream);
}

std::size_t workspace_bytes(const RowProblem& p) {
  if (!is_across(p.function)) return 0;
  return counter_bytes + static_cast<std::size_t>(pieces_of(row_program(p, false)) * p.columns) * sizeof(float);
}

std::optional<std::string> rows(const RowProblem& p, const RowData& data, const Workspace& workspace,
                                CUstream_st* stream) {
  if (p.rows == 0 && is_across(p.function)) {  // Sums over no rows are zero.
    const cudaError_t e = cudaMemsetAsync(data.y, 0, static_cast<std::size_t>(p.columns * bits(p.y.dtype) / 8), stream);
    return e == cudaSuccess ? std::nullopt
                            : std::optional(std::string("clearing empty sums: ") + cudaGetErrorString(e));
  }
  if (p.rows == 0 || p.columns == 0) return std::nullopt;
  const void* const weight = is_weighted(p.function) ? data.weight : nullptr;
  const RowProgram program = row_program(p, weight != nullptr);
  if (p.function > RowFunction::layernorm || (!cannot_generate() && !find_fault(program))) {
    if (workspace.bytes < workspace_bytes(p))
      return "workspace: expected " + std::to_string(workspace_bytes(p)) + " bytes, found " +
             std::to_string(workspace.bytes);
    std::vector<void*> tensors{const_cast<void*>(data.x)};
    if (is_gradient(p.function)) tensors.push_back(const_cast<void*>(data.dy));
    if (weight != nullptr) tensors.push_back(const_cast<void*>(weight));
    tensors.push_back(is_across(p.function) ? static_cast<char*>(workspace.data) + counter_bytes : data.y);
    const Generated kernel = generate(program, tensors, multiprocessors_in_full());
    const auto trouble = run(kernel, stream);
    if (trouble || !is_across(p.function)) return trouble;
    const ReduceProblem sum{ReduceFunction::sum, DType::f32, p.y.dtype, {{p.columns, 1, 1}}, {}};
    return join_pieces(sum, kernel.blocks / kernel.cluster, p.rows, tensors.back(), data.y, stream);
  }
  const DeviceRows d{p.rows, p.columns,         p.x.row_stride,    p.y.row_stride,   data.x,   data.weight,
                     data.y, stored(p.x.dtype), stored(p.y.dtype), stored(p.weight), p.epsilon};
  kernel_of(p.function)<<<static_cast<unsigned>(std::min<Index>(p.rows, 8 * multiprocessors())), threads, 0, stream>>>(
      d);
  const cudaError_t e = cudaGetLastError();
  if (e == cudaSuccess) return std::nullopt;
  return std::string("launching a row function: ") + cudaGetErrorString(e);
}

}  // namespace ridge::ops::cuda
