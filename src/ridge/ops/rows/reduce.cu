// Reductions on the device: values of a batch are combined in f32, the batches in f64. If a kept axis is contiguous in
// x, adjacent threads take adjacent points and loop over the reduced ones; else the lanes of a warp, or of a part of
// it, share a point. If the points do not fill the device, the reduced points are split, and a second kernel of the
// same source reduces the splits' f32 results in the workspace.
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>

#include "ridge/device/cuda_status.h"
#include "ridge/device/device.h"
#include "ridge/ops/function/device_math.h"
#include "ridge/ops/rows/cpu.h"
#include "ridge/ops/rows/cuda.h"
// Must follow device_math.h, which defines RIDGE_FN.
#include "ridge/tile/cuda/vector_access.h"
#include "ridge/tile/rows.h"

namespace ridge::ops::cuda {
namespace {

using tile::combine_values;
using ReduceIndex = long long;

constexpr int threads = 256, max_axes = 8;
constexpr int column_batch = 8, row_batch = 4;                       // Loads in flight per thread.
constexpr ReduceIndex threads_per_sm = 1024, max_splits_per_sm = 8;  // Per SM: threads that fill it; maximum splits.

struct DeviceAxes {
  int count;
  ReduceIndex points, extents[max_axes], x[max_axes], y[max_axes];
};
struct DeviceReduction {
  DType y_dtype;
  DeviceAxes kept, reduced;
  ReduceIndex points_per_split, splits, split_y_stride;  // Number of reduced points; y stride between splits.
  int lanes;
  double divisor;
  const char* x;
  char* y;
};

struct Offset {
  ReduceIndex x = 0, y = 0;
};
__device__ Offset offset_of(const DeviceAxes& axes, ReduceIndex point) {
  Offset at;
  for (int i = axes.count - 1; i > 0; --i) {
    const ReduceIndex next = (point | axes.extents[i]) >> 32 == 0
                                 ? static_cast<unsigned>(point) / static_cast<unsigned>(axes.extents[i])
                                 : point / axes.extents[i];
    const ReduceIndex index_on_axis = point - next * axes.extents[i];
    at.x += index_on_axis * axes.x[i];
    at.y += index_on_axis * axes.y[i];
    point = next;
  }
  if (axes.count > 0) {
    at.x += point * axes.x[0];
    at.y += point * axes.y[0];
  }
  return at;
}

template <class Kind> constexpr float identity = 0;
template <> constexpr float identity<tile::MaxOrNan> = -INFINITY;
template <> constexpr float identity<tile::MinOrNan> = INFINITY;

__device__ void store_result(const DeviceReduction& p, ReduceIndex at, double value) {
  const float x = static_cast<float>(value / p.divisor);
  if (p.y_dtype == DType::f32)
    tile::cuda::write_one<tile::cuda::NumberFormat::f32>(p.y, at, x);
  else if (p.y_dtype == DType::bf16)
    tile::cuda::write_one<tile::cuda::NumberFormat::bf16>(p.y, at, x);
  else
    tile::cuda::write_one<tile::cuda::NumberFormat::f16>(p.y, at, x);
}

// Reduces W adjacent values at the reduced points begin, begin + step, ..., with `batch` loads in flight.
template <tile::cuda::NumberFormat form, int W, int batch, class F>
__device__ void reduce_points(const DeviceReduction& p, ReduceIndex base, ReduceIndex begin, ReduceIndex end,
                              ReduceIndex step, double (&value)[W]) {
  for (double& v : value) v = identity<F>;
  for (ReduceIndex r = begin; r < end; r += step * batch) {
    tile::cuda::Pack<form, W> x[batch];
#pragma unroll
    for (int b = 0; b < batch; ++b)
      x[b] = tile::cuda::read<form, W, W, tile::cuda::CachePolicy::streamed>(
          p.x, base + offset_of(p.reduced, r + b * step).x, r + b * step < end);
#pragma unroll
    for (int i = 0; i < W; ++i) {
      float part = x[0][i];
#pragma unroll
      for (int b = 1; b < batch; ++b) part = combine_values(F{}, part, r + b * step < end ? x[b][i] : identity<F>);
      value[i] = combine_values(F{}, value[i], static_cast<double>(part));
    }
  }
}
__device__ ReduceIndex split_end(const DeviceReduction& p, ReduceIndex split) {
  const ReduceIndex end = (split + 1) * p.points_per_split;
  return end < p.reduced.points ? end : p.reduced.points;
}

// Each of `lanes` threads has W adjacent points; the block's other rows of threads take other reduced points.
template <tile::cuda::NumberFormat form, int W, class F> __global__ void __launch_bounds__(threads)
    reduce_columns_kernel(const DeviceReduction p) {
  __shared__ double warp_values[W][threads / 32][32];
  const int lane = threadIdx.x % p.lanes, row = threadIdx.x / p.lanes, rows = threads / p.lanes;
  const ReduceIndex groups = (p.kept.points / W + p.lanes - 1) / p.lanes;
  for (ReduceIndex item = blockIdx.x; item < groups * p.splits; item += gridDim.x) {
    const ReduceIndex split = item / groups, first = (item - split * groups) * p.lanes * W, point = first + lane * W;
    const bool is_live = point < p.kept.points;
    double value[W];
    reduce_points<form, W, column_batch, F>(p, offset_of(p.kept, is_live ? point : 0).x,
                                            split * p.points_per_split + row, is_live ? split_end(p, split) : 0, rows,
                                            value);
    __syncthreads();  // All threads have read the last item's values.
#pragma unroll
    for (int i = 0; i < W; ++i) {
      for (int other = 16; other >= p.lanes; other /= 2)
        value[i] = combine_values(F{}, value[i], __shfl_xor_sync(0xffffffff, value[i], other));
      warp_values[i][threadIdx.x / 32][threadIdx.x % 32] = value[i];
    }
    __syncthreads();
    const int mine = threadIdx.x;
    if (mine >= p.lanes * W || first + mine >= p.kept.points) continue;
    double all = warp_values[mine % W][0][mine / W];
    for (int w = 1; w < threads / 32; ++w) all = combine_values(F{}, all, warp_values[mine % W][w][mine / W]);
    store_result(p, split * p.split_y_stride + offset_of(p.kept, first + mine).y, all);
  }
}

// `lanes` threads (up to a block) share a point and loop over its reduced points.
template <tile::cuda::NumberFormat form, int W, class F> __global__ void __launch_bounds__(threads)
    reduce_rows_kernel(const DeviceReduction p) {
  __shared__ double warp_values[threads / 32];
  const int lane = threadIdx.x % p.lanes, teams = threads / p.lanes;
  const ReduceIndex items = p.kept.points * p.splits;
  for (ReduceIndex first = blockIdx.x * ReduceIndex{teams}; first < items; first += gridDim.x * ReduceIndex{teams}) {
    const ReduceIndex item = first + threadIdx.x / p.lanes;
    const ReduceIndex split = item / p.kept.points, point = item - split * p.kept.points;
    const bool is_live = item < items;
    const Offset at = offset_of(p.kept, is_live ? point : 0);
    double value[W];
    reduce_points<form, W, row_batch, F>(p, at.x, split * p.points_per_split + lane * W,
                                         is_live ? split_end(p, split) : 0, p.lanes * W, value);
    double all = value[0];
#pragma unroll
    for (int i = 1; i < W; ++i) all = combine_values(F{}, all, value[i]);
    for (int other = (p.lanes < 32 ? p.lanes : 32) / 2; other > 0; other /= 2)
      all = combine_values(F{}, all, __shfl_xor_sync(0xffffffff, all, other));
    if (p.lanes > 32) {
      __syncthreads();
      if (threadIdx.x % 32 == 0) warp_values[threadIdx.x / 32] = all;
      __syncthreads();
      for (int w = 0; lane == 0 && w < threads / 32; ++w)
        all = w == 0 ? warp_values[0] : combine_values(F{}, all, warp_values[w]);
    }
    if (is_live && lane == 0) store_result(p, split * p.split_y_stride + at.y, all);
  }
}

// Returns the width of vector loads that the strides allow if x is aligned to 16 bytes.
int find_vector_width(const std::vector<ReduceAxis>& fast, const std::vector<ReduceAxis>& slow, DType dtype) {
  const int wide = 128 / dtype_bits(dtype);
  if (fast.empty() || fast.back().x_stride != 1 || fast.back().extent % wide != 0) return 1;
  for (const auto* axes : {&fast, &slow})
    for (const ReduceAxis& a : *axes)
      if (a.x_stride != 1 && a.x_stride % wide != 0) return 1;
  return wide;
}

struct ReductionPlan {
  std::vector<ReduceAxis> kept, reduced;
  ReduceIndex kept_points = 1, reduced_points = 1;
  bool reduces_columns = false;  // True if adjacent elements of x belong to different results.
  int lanes = 1, vector_width = 1;
  ReduceIndex splits = 1, points_per_split = 1;
};
ReductionPlan plan_reduction(const ReduceProblem& p) {
  ReductionPlan s{sort_and_merge_axes(p.kept), sort_and_merge_axes(p.reduced)};
  for (const ReduceAxis& a : s.kept) s.kept_points *= a.extent;
  for (const ReduceAxis& a : s.reduced) s.reduced_points *= a.extent;
  s.reduces_columns = !s.kept.empty() && s.kept.back().x_stride != 0 &&
                      (s.reduced.empty() || s.kept.back().x_stride < s.reduced.back().x_stride);
  const ReduceIndex vector_width = s.vector_width =
      s.reduces_columns ? find_vector_width(s.kept, s.reduced, p.x) : find_vector_width(s.reduced, s.kept, p.x);
  while (s.lanes < 32 && s.lanes * vector_width < (s.reduces_columns ? s.kept_points : s.reduced_points)) s.lanes *= 2;
  if (!s.reduces_columns && s.reduced_points >= threads * vector_width * row_batch) s.lanes = threads;
  const ReduceIndex busy_threads =
      s.reduces_columns ? s.kept_points / vector_width * threads / s.lanes : s.kept_points * s.lanes;
  // A split has several batches for all lanes; the second kernel must not have more work per point than the first.
  const ReduceIndex min_split_values =
      s.reduces_columns ? threads / s.lanes * column_batch : s.lanes * vector_width * row_batch;
  const ReduceIndex sms = device::multiprocessor_count();
  const ReduceIndex max_splits = std::min<ReduceIndex>(
      max_splits_per_sm * sms, s.reduces_columns
                                   ? std::max<ReduceIndex>(static_cast<ReduceIndex>(std::sqrt(s.reduced_points)), 32)
                                   : max_splits_per_sm * sms);
  s.splits = std::clamp<ReduceIndex>(threads_per_sm * sms / std::max<ReduceIndex>(busy_threads, 1), 1,
                                     std::clamp<ReduceIndex>(s.reduced_points / min_split_values, 1, max_splits));
  s.points_per_split = ((s.reduced_points + s.splits - 1) / s.splits + 7) / 8 * 8;
  s.splits = (s.reduced_points + s.points_per_split - 1) / s.points_per_split;
  return s;
}

DeviceAxes to_device_axes(const std::vector<ReduceAxis>& axes) {
  DeviceAxes out{.count = static_cast<int>(axes.size()), .points = 1};
  for (std::size_t i = 0; i < axes.size(); ++i) {
    out.points *= axes[i].extent;
    out.extents[i] = axes[i].extent;
    out.x[i] = axes[i].x_stride;
    out.y[i] = axes[i].y_stride;
  }
  return out;
}

template <tile::cuda::NumberFormat form, int W, class F>
cudaError_t launch_reduction(const ReductionPlan& s, const DeviceReduction& p, cudaStream_t stream) {
  const ReduceIndex items = s.reduces_columns ? (p.kept.points / W + p.lanes - 1) / p.lanes * p.splits
                                              : (p.kept.points * p.splits * p.lanes + threads - 1) / threads;
  const auto blocks = static_cast<unsigned>(std::min<ReduceIndex>(items, ReduceIndex{1} << 20));
  (s.reduces_columns ? reduce_columns_kernel<form, W, F>
                     : reduce_rows_kernel<form, W, F>)<<<blocks, threads, 0, stream>>>(p);
  return cudaGetLastError();
}
template <tile::cuda::NumberFormat form, class F>
cudaError_t launch_reduction(const ReductionPlan& s, const DeviceReduction& p, cudaStream_t stream) {
  constexpr int wide = 16 / tile::cuda::size_of<form>;
  return s.vector_width == wide && reinterpret_cast<std::uintptr_t>(p.x) % 16 == 0
             ? launch_reduction<form, wide, F>(s, p, stream)
             : launch_reduction<form, 1, F>(s, p, stream);
}
template <class F>
cudaError_t launch_reduction(const ReductionPlan& s, DType x, const DeviceReduction& p, cudaStream_t stream) {
  if (x == DType::f32) return launch_reduction<tile::cuda::NumberFormat::f32, F>(s, p, stream);
  if (x == DType::bf16) return launch_reduction<tile::cuda::NumberFormat::bf16, F>(s, p, stream);
  return launch_reduction<tile::cuda::NumberFormat::f16, F>(s, p, stream);
}

Status launch_reduction(const ReduceProblem& problem, const ReductionPlan& s, const void* x, void* y, bool partial,
                        cudaStream_t stream) {
  DeviceReduction p{};
  p.y_dtype = problem.y;
  p.lanes = s.lanes;
  p.kept = to_device_axes(s.kept);
  p.reduced = to_device_axes(s.reduced);
  p.points_per_split = s.points_per_split;
  p.splits = s.splits;
  p.divisor = 1;
  if (problem.function == ReduceFunction::mean && !partial) p.divisor = static_cast<double>(s.reduced_points);
  p.x = static_cast<const char*>(x);
  p.y = static_cast<char*>(y);
  if (partial) {  // Contiguous results.
    p.y_dtype = DType::f32;
    p.split_y_stride = s.kept_points;
    ReduceIndex stride = 1;
    for (int i = p.kept.count - 1; i >= 0; --i) {
      p.kept.y[i] = stride;
      stride *= p.kept.extents[i];
    }
  }
  const auto launch = [&] {
    if (problem.function == ReduceFunction::max) return launch_reduction<tile::MaxOrNan>(s, problem.x, p, stream);
    if (problem.function == ReduceFunction::min) return launch_reduction<tile::MinOrNan>(s, problem.x, p, stream);
    return launch_reduction<tile::Add>(s, problem.x, p, stream);
  };
  return device::to_status(launch(), "launching a reduction");
}

}  // namespace

Reason unsupported_reason(const ReduceProblem& p) {
  if (auto why = ops::unsupported_reason(p)) return why;
  for (const auto* axes : {&p.kept, &p.reduced})
    if (const std::size_t count = sort_and_merge_axes(*axes).size(); count > max_axes)
      return "the reduction has " + std::to_string(count) + " axes that cannot be merged; expected at most " +
             std::to_string(max_axes);
  return {};
}

Status reduce_splits(ReduceProblem p, std::int64_t splits, std::int64_t reduced_points, const void* from, void* y,
                     CUstream_st* stream) {
  p.x = DType::f32;
  ReduceIndex stride = 1;
  for (auto axis = p.kept.rbegin(); axis != p.kept.rend(); ++axis) {
    axis->x_stride = stride;
    stride *= axis->extent;
  }
  p.reduced = {{splits, stride, 0}};
  ReductionPlan s = plan_reduction(p);
  s.splits = 1;
  s.points_per_split = splits;
  s.reduced_points = reduced_points;
  s.lanes = std::min(s.lanes, 8);  // There are few points, so each gets more rows of threads.
  return launch_reduction(p, s, from, y, false, stream);
}

std::size_t workspace_bytes(const ReduceProblem& p) {
  const ReductionPlan s = plan_reduction(p);
  return s.splits == 1 ? 0 : device::counter_bytes + static_cast<std::size_t>(s.splits * s.kept_points) * 4;
}

Status reduce(const ReduceProblem& p, const void* x, void* y, const device::DeviceWorkspace& workspace,
              CUstream_st* stream) {
  ReductionPlan s = plan_reduction(p);
  if (s.splits == 1) return launch_reduction(p, s, x, y, false, stream);
  RIDGE_TRY_STATUS(device::check_workspace(workspace, workspace_bytes(p)));
  char* const partial_results = static_cast<char*>(workspace.data) + device::counter_bytes;
  RIDGE_TRY_STATUS(launch_reduction(p, s, x, partial_results, true, stream));
  ReduceProblem final_problem = p;
  final_problem.kept = s.kept;
  return reduce_splits(final_problem, s.splits, s.reduced_points, partial_results, y, stream);
}

}  // namespace ridge::ops::cuda
