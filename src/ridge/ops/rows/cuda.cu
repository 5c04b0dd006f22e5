// Row functions on the device: generated kernels (source.cc). If a row exceeds the registers, or NVRTC is missing, a
// block processes a row and reads it again in each pass, from the L1 or L2.
#include <cuda_runtime.h>

#include <algorithm>

#include "ridge/device/cuda_status.h"
#include "ridge/device/device.h"
#include "ridge/device/run_generated.h"
#include "ridge/device/stream.h"
#include "ridge/ops/rows/cpu.h"
#include "ridge/ops/rows/cuda.h"
#include "ridge/ops/rows/row_kernels.h"
#include "ridge/ops/rows/source.h"
#include "ridge/tile/tile.h"
// Must follow tile.h, which defines TILE_FN.
#include "ridge/tile/sm90/epilogue.h"

namespace ridge::ops::cuda {
namespace {

using tile::Index, tile::StorageFormat;

constexpr int threads = 256;

struct DeviceRowArguments {
  Index rows, columns, x_stride, y_stride;
  const void *x, *weight;
  void* y;
  StorageFormat x_stored, y_stored, weight_stored;
  float epsilon;
};

// A thread's view of a row that is not kept in registers: each pass reads it again.
struct RowThread {
  static constexpr int unroll_count = 4;
  const DeviceRowArguments& p;
  Index row;
  TILE_FN Index column_of(Index i) const { return i * threads + threadIdx.x; }
  TILE_FN Index count() const { return (p.columns + threads - 1) / threads; }
  TILE_FN bool is_inside(Index i) const { return column_of(i) < p.columns; }
  TILE_FN float value_at(Index column) const {
    return tile::sm90::read_stored(p.x_stored, p.x, row * p.x_stride + column);
  }
  TILE_FN float read(Index i) const { return value_at(column_of(i)); }
  TILE_FN float weight(Index i) const {
    return p.weight != nullptr ? tile::sm90::read_stored(p.weight_stored, p.weight, column_of(i)) : 1;
  }
  TILE_FN void write(Index i, float x) const {
    const Index to = row * p.y_stride + column_of(i);
    if (p.y_stored == StorageFormat::f32)
      static_cast<float*>(p.y)[to] = x;
    else
      static_cast<std::uint16_t*>(p.y)[to] = tile::sm90::to_stored(p.y_stored, x);
  }
  template <class F, int> __device__ float reduce_all_lanes(float x) const {
    __shared__ float warps[threads / 32];
    __syncthreads();  // All threads have read the last call's values.
    return tile::cuda::reduce_block<F, threads / 32>(x, warps);
  }
  template <int> TILE_FN float first_element() const { return value_at(0); }
};

template <class RowKernel> __global__ void __launch_bounds__(threads) rows_kernel(const DeviceRowArguments p) {
  typename RowKernel::Globals g{};
  if constexpr (tile::cuda::has_rescaling<RowKernel>) {
    g.sum_scale = 1 / static_cast<float>(p.columns);
    g.epsilon = p.epsilon;
  }
  for (Index row = blockIdx.x; row < p.rows; row += gridDim.x) {
    RowThread lane{p, row};
    tile::cuda::LoopedRow<RowThread> looped_row{lane};
    tile::cuda::run_passes<RowKernel, 0, true>(looped_row, g);
  }
}
using RowKernelFunction = void (*)(DeviceRowArguments);
RowKernelFunction select_kernel(RowFunction function) {
  switch (function) {
    case RowFunction::rmsnorm: return rows_kernel<Rmsnorm<float, float, float>>;
    case RowFunction::layernorm: return rows_kernel<Layernorm<float, float, float>>;
    default: return rows_kernel<Softmax<float, float>>;
  }
}

}  // namespace

Reason unsupported_reason(const RowProblem& p) {
  if (auto why = ops::unsupported_reason(p)) return why;
  if (p.function <= RowFunction::layernorm) return {};
  return invalid_reason(make_row_program(p, has_weight(p.function)));
}

Reason unsupported_reason(const RowProgram& program) { return invalid_reason(program); }

Status launch_row_kernel(const RowProgram& program, std::span<void* const> tensors, CUstream_st* stream) {
  return device::launch_generated(generate_row_kernel(program, tensors, device::multiprocessor_limits()), stream);
}

std::size_t workspace_bytes(const RowProblem& p) {
  if (!reduces_across_rows(p.function)) return 0;
  return device::counter_bytes +
         static_cast<std::size_t>(max_row_splits(make_row_program(p, false)) * p.columns) * sizeof(float);
}

Status launch_row_kernel(const RowProblem& p, const RowData& data, const device::DeviceWorkspace& workspace,
                         CUstream_st* stream) {
  if (p.rows == 0 && reduces_across_rows(p.function))  // Sums over no rows are zero.
    return device::clear_on_stream(stream, data.y, p.columns * dtype_bits(p.y.dtype) / 8);
  if (p.rows == 0 || p.columns == 0) return Done{};
  const void* const weight = has_weight(p.function) ? data.weight : nullptr;
  const RowProgram program = make_row_program(p, weight != nullptr);
  if (p.function > RowFunction::layernorm || (!device::generation_unavailable_reason() && !invalid_reason(program))) {
    RIDGE_TRY_STATUS(device::check_workspace(workspace, workspace_bytes(p)));
    std::vector<void*> tensors{const_cast<void*>(data.x)};
    if (is_gradient(p.function)) tensors.push_back(const_cast<void*>(data.dy));
    if (weight != nullptr) tensors.push_back(const_cast<void*>(weight));
    tensors.push_back(reduces_across_rows(p.function) ? static_cast<char*>(workspace.data) + device::counter_bytes
                                                      : data.y);
    const device::GeneratedKernel kernel = generate_row_kernel(program, tensors, device::multiprocessor_limits());
    RIDGE_TRY_STATUS(device::launch_generated(kernel, stream));
    if (!reduces_across_rows(p.function)) return Done{};
    const ReduceProblem sum{ReduceFunction::sum, DType::f32, p.y.dtype, {{p.columns, 1, 1}}, {}};
    return reduce_splits(sum, kernel.blocks / kernel.cluster_blocks, p.rows, tensors.back(), data.y, stream);
  }
  const DeviceRowArguments d{p.rows,
                             p.columns,
                             p.x.row_stride,
                             p.y.row_stride,
                             data.x,
                             data.weight,
                             data.y,
                             tile::to_device_format(p.x.dtype),
                             tile::to_device_format(p.y.dtype),
                             tile::to_device_format(p.weight_dtype),
                             p.epsilon};
  select_kernel(p.function)<<<static_cast<unsigned>(std::min<Index>(p.rows, 8 * device::multiprocessor_count())),
                              threads, 0, stream>>>(d);
  return device::to_status(cudaGetLastError(), "launching a row function");
}

}  // namespace ridge::ops::cuda
