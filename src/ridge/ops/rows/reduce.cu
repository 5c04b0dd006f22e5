// Reductions on the device: batches of values are combined in f32, batches in f64. If a kept axis is contiguous in x,
// adjacent threads take adjacent points and loop over the reduced ones; else the lanes of a warp, or of a part of it,
// share a point. If the points do not fill the device, the reduced points are split, and a second kernel of the same
// source reduces the splits' f32 results in the workspace.
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>

#include "ridge/device/device.h"
#include "ridge/ops/function/device_math.h"
#include "ridge/ops/rows/cpu.h"
#include "ridge/ops/rows/cuda.h"
// Must follow device_math.h, which defines RIDGE_FN.
#include "ridge/tile/cuda/words.h"
#include "ridge/tile/rows.h"

namespace ridge::ops::cuda {
namespace {

using tile::joined;
using Index = long long;

constexpr int threads = 256, most_axes = 8;
constexpr int down_batch = 8, along_batch = 4;    // Loads in flight per thread.
constexpr Index filling = 1024, most_pieces = 8;  // Per SM: threads that fill it; maximum splits.

struct DeviceAxes {
  int count;
  Index points, extents[most_axes], x[most_axes], y[most_axes];
};
struct DeviceReduction {
  DType y_dtype;
  DeviceAxes kept, reduced;
  Index chunk, pieces, piece_stride;  // Reduced points per split; distance of splits' results in y.
  int lanes;
  double divisor;
  const char* x;
  char* y;
};

struct Offset {
  Index x = 0, y = 0;
};
__device__ Offset offset_of(const DeviceAxes& axes, Index point) {
  Offset at;
  for (int i = axes.count - 1; i > 0; --i) {
    const Index next = (point | axes.extents[i]) >> 32 == 0
                           ? static_cast<unsigned>(point) / static_cast<unsigned>(axes.extents[i])
                           : point / axes.extents[i];
    const Index here = point - next * axes.extents[i];
    at.x += here * axes.x[i];
    at.y += here * axes.y[i];
    point = next;
  }
  if (axes.count > 0) {
    at.x += point * axes.x[0];
    at.y += point * axes.y[0];
  }
  return at;
}

template <class Kind> constexpr float nothing = 0;
template <> constexpr float nothing<tile::Largest> = -INFINITY;
template <> constexpr float nothing<tile::Least> = INFINITY;

__device__ void put(const DeviceReduction& p, Index at, double value) {
  const float x = static_cast<float>(value / p.divisor);
  if (p.y_dtype == DType::f32)
    device::write_one<device::Form::f32>(p.y, at, x);
  else if (p.y_dtype == DType::bf16)
    device::write_one<device::Form::bf16>(p.y, at, x);
  else
    device::write_one<device::Form::f16>(p.y, at, x);
}

// Reduces W adjacent values at the reduced points begin, begin + step, ..., with `batch` loads in flight.
template <device::Form form, int W, int batch, class F>
__device__ void fold(const DeviceReduction& p, Index base, Index begin, Index end, Index step, double (&value)[W]) {
  for (double& v : value) v = nothing<F>;
  for (Index r = begin; r < end; r += step * batch) {
    device::Pack<form, W> x[batch];
#pragma unroll
    for (int b = 0; b < batch; ++b)
      x[b] = device::read<form, W, W, device::Use::streamed>(p.x, base + offset_of(p.reduced, r + b * step).x,
                                                             r + b * step < end);
#pragma unroll
    for (int i = 0; i < W; ++i) {
      float part = x[0][i];
#pragma unroll
      for (int b = 1; b < batch; ++b) part = joined(F{}, part, r + b * step < end ? x[b][i] : nothing<F>);
      value[i] = joined(F{}, value[i], static_cast<double>(part));
    }
  }
}
__device__ Index end_of(const DeviceReduction& p, Index piece) {
  const Index end = (piece + 1) * p.chunk;
  return end < p.reduced.points ? end : p.reduced.points;
}

// Each of `lanes` threads has W adjacent points; the block's other rows of threads take other reduced points.
template <device::Form form, int W, class F> __global__ void __launch_bounds__(threads) down(const DeviceReduction p) {
  __shared__ double others[W][threads / 32][32];
  const int lane = threadIdx.x % p.lanes, row = threadIdx.x / p.lanes, rows = threads / p.lanes;
  const Index groups = (p.kept.points / W + p.lanes - 1) / p.lanes;
  for (Index item = blockIdx.x; item < groups * p.pieces; item += gridDim.x) {
    const Index piece = item / groups, first = (item - piece * groups) * p.lanes * W, point = first + lane * W;
    const bool live = point < p.kept.points;
    double value[W];
    fold<form, W, down_batch, F>(p, offset_of(p.kept, live ? point : 0).x, piece * p.chunk + row,
                                 live ? end_of(p, piece) : 0, rows, value);
    __syncthreads();  // All threads have read the last item's values.
#pragma unroll
    for (int i = 0; i < W; ++i) {
      for (int other = 16; other >= p.lanes; other /= 2)
        value[i] = joined(F{}, value[i], __shfl_xor_sync(0xffffffff, value[i], other));
      others[i][threadIdx.x / 32][threadIdx.x % 32] = value[i];
    }
    __syncthreads();
    const int mine = threadIdx.x;
    if (mine >= p.lanes * W || first + mine >= p.kept.points) continue;
    double all = others[mine % W][0][mine / W];
    for (int w = 1; w < threads / 32; ++w) all = joined(F{}, all, others[mine % W][w][mine / W]);
    put(p, piece * p.piece_stride + offset_of(p.kept, first + mine).y, all);
  }
}

// `lanes` threads (up to a block) share a point and loop over its reduced points.
template <device::Form form, int W, class F> __global__ void __launch_bounds__(threads) along(const DeviceReduction p) {
  __shared__ double others[threads / 32];
  const int lane = threadIdx.x % p.lanes, teams = threads / p.lanes;
  const Index items = p.kept.points * p.pieces;
  for (Index first = blockIdx.x * Index{teams}; first < items; first += gridDim.x * Index{teams}) {
    const Index item = first + threadIdx.x / p.lanes;
    const Index piece = item / p.kept.points, point = item - piece * p.kept.points;
    const bool live = item < items;
    const Offset at = offset_of(p.kept, live ? point : 0);
    double value[W];
    fold<form, W, along_batch, F>(p, at.x, piece * p.chunk + lane * W, live ? end_of(p, piece) : 0, p.lanes * W, value);
    double all = value[0];
#pragma unroll
    for (int i = 1; i < W; ++i) all = joined(F{}, all, value[i]);
    for (int other = (p.lanes < 32 ? p.lanes : 32) / 2; other > 0; other /= 2)
      all = joined(F{}, all, __shfl_xor_sync(0xffffffff, all, other));
    if (p.lanes > 32) {
      __syncthreads();
      if (threadIdx.x % 32 == 0) others[threadIdx.x / 32] = all;
      __syncthreads();
      for (int w = 0; lane == 0 && w < threads / 32; ++w) all = w == 0 ? others[0] : joined(F{}, all, others[w]);
    }
    if (live && lane == 0) put(p, piece * p.piece_stride + at.y, all);
  }
}

// Returns the width of vector loads that the strides allow if x is aligned to 16 bytes.
int neighbours_of(const std::vector<ReduceAxis>& fast, const std::vector<ReduceAxis>& slow, DType dtype) {
  const int wide = 128 / bits(dtype);
  if (fast.empty() || fast.back().x_stride != 1 || fast.back().extent % wide != 0) return 1;
  for (const auto* axes : {&fast, &slow})
    for (const ReduceAxis& a : *axes)
      if (a.x_stride != 1 && a.x_stride % wide != 0) return 1;
  return wide;
}

struct Shapes {
  std::vector<ReduceAxis> kept, reduced;
  Index points = 1, values = 1;  // Kept points; reduced points.
  bool is_down = false;          // True if adjacent elements of x belong to different results.
  int lanes = 1, neighbours = 1;
  Index pieces = 1, chunk = 1;
};
Shapes shapes_of(const ReduceProblem& p) {
  Shapes s{merged(p.kept), merged(p.reduced)};
  for (const ReduceAxis& a : s.kept) s.points *= a.extent;
  for (const ReduceAxis& a : s.reduced) s.values *= a.extent;
  s.is_down = !s.kept.empty() && s.kept.back().x_stride != 0 &&
              (s.reduced.empty() || s.kept.back().x_stride < s.reduced.back().x_stride);
  const Index neighbours = s.neighbours =
      s.is_down ? neighbours_of(s.kept, s.reduced, p.x) : neighbours_of(s.reduced, s.kept, p.x);
  while (s.lanes < 32 && s.lanes * neighbours < (s.is_down ? s.points : s.values)) s.lanes *= 2;
  if (!s.is_down && s.values >= threads * neighbours * along_batch) s.lanes = threads;
  const Index busy = s.is_down ? s.points / neighbours * threads / s.lanes : s.points * s.lanes;
  // A split has several batches for all lanes; the second kernel must not have more work per point than the first.
  const Index least = s.is_down ? threads / s.lanes * down_batch : s.lanes * neighbours * along_batch;
  const Index sms = multiprocessors();
  const Index most = std::min<Index>(
      most_pieces * sms, s.is_down ? std::max<Index>(static_cast<Index>(std::sqrt(s.values)), 32) : most_pieces * sms);
  s.pieces =
      std::clamp<Index>(filling * sms / std::max<Index>(busy, 1), 1, std::clamp<Index>(s.values / least, 1, most));
  s.chunk = ((s.values + s.pieces - 1) / s.pieces + 7) / 8 * 8;
  s.pieces = (s.values + s.chunk - 1) / s.chunk;
  return s;
}

DeviceAxes on_device(const std::vector<ReduceAxis>& axes) {
  DeviceAxes out{.count = static_cast<int>(axes.size()), .points = 1};
  for (std::size_t i = 0; i < axes.size(); ++i) {
    out.points *= axes[i].extent;
    out.extents[i] = axes[i].extent;
    out.x[i] = axes[i].x_stride;
    out.y[i] = axes[i].y_stride;
  }
  return out;
}

template <device::Form form, int W, class F>
cudaError_t launch(const Shapes& s, const DeviceReduction& p, cudaStream_t stream) {
  const Index items = s.is_down ? (p.kept.points / W + p.lanes - 1) / p.lanes * p.pieces
                                : (p.kept.points * p.pieces * p.lanes + threads - 1) / threads;
  const auto blocks = static_cast<unsigned>(std::min<Index>(items, Index{1} << 20));
  (s.is_down ? down<form, W, F> : along<form, W, F>)<<<blocks, threads, 0, stream>>>(p);
  return cudaGetLastError();
}
template <device::Form form, class F>
cudaError_t launch(const Shapes& s, const DeviceReduction& p, cudaStream_t stream) {
  constexpr int wide = 16 / device::size_of<form>;
  return s.neighbours == wide && reinterpret_cast<std::uintptr_t>(p.x) % 16 == 0 ? launch<form, wide, F>(s, p, stream)
                                                                                 : launch<form, 1, F>(s, p, stream);
}
template <class F> cudaError_t launch(const Shapes& s, DType x, const DeviceReduction& p, cudaStream_t stream) {
  if (x == DType::f32) return launch<device::Form::f32, F>(s, p, stream);
  if (x == DType::bf16) return launch<device::Form::bf16, F>(s, p, stream);
  return launch<device::Form::f16, F>(s, p, stream);
}

cudaError_t launch(const ReduceProblem& problem, const Shapes& s, const void* x, void* y, bool partial,
                   cudaStream_t stream) {
  DeviceReduction p{};
  p.y_dtype = problem.y;
  p.lanes = s.lanes;
  p.kept = on_device(s.kept);
  p.reduced = on_device(s.reduced);
  p.chunk = s.chunk;
  p.pieces = s.pieces;
  p.divisor = 1;
  if (problem.function == ReduceFunction::mean && !partial) p.divisor = static_cast<double>(s.values);
  p.x = static_cast<const char*>(x);
  p.y = static_cast<char*>(y);
  if (partial) {  // Contiguous results.
    p.y_dtype = DType::f32;
    p.piece_stride = s.points;
    Index stride = 1;
    for (int i = p.kept.count - 1; i >= 0; --i) {
      p.kept.y[i] = stride;
      stride *= p.kept.extents[i];
    }
  }
  if (problem.function == ReduceFunction::max) return launch<tile::Largest>(s, problem.x, p, stream);
  if (problem.function == ReduceFunction::min) return launch<tile::Least>(s, problem.x, p, stream);
  return launch<tile::Add>(s, problem.x, p, stream);
}

std::optional<std::string> said(cudaError_t e) {
  if (e == cudaSuccess) return std::nullopt;
  return std::string("launching a reduction: ") + cudaGetErrorString(e);
}

}  // namespace

std::optional<std::string> refuse(const ReduceProblem& p) {
  if (auto why = ops::refuse(p)) return why;
  for (const auto* axes : {&p.kept, &p.reduced})
    if (const std::size_t count = merged(*axes).size(); count > most_axes)
      return "the reduction has " + std::to_string(count) +
             " axes that cannot be merged; expected at most " + std::to_string(most_axes);
  return std::nullopt;
}

std::optional<std::string> join_pieces(ReduceProblem p, std::int64_t pieces, std::int64_t values, const void* from,
                                       void* y, CUstream_st* stream) {
  p.x = DType::f32;
  Index stride = 1;
  for (auto axis = p.kept.rbegin(); axis != p.kept.rend(); ++axis) {
    axis->x_stride = stride;
    stride *= axis->extent;
  }
  p.reduced = {{pieces, stride, 0}};
  Shapes s = shapes_of(p);
  s.pieces = 1;
  s.chunk = pieces;
  s.values = values;
  s.lanes = std::min(s.lanes, 8);  // There are few points, so each gets more rows of threads.
  return said(launch(p, s, from, y, false, stream));
}

std::size_t workspace_bytes(const ReduceProblem& p) {
  const Shapes s = shapes_of(p);
  return s.pieces == 1 ? 0 : counter_bytes + static_cast<std::size_t>(s.pieces * s.points) * 4;
}

std::optional<std::string> reduce(const ReduceProblem& p, const void* x, void* y, const Workspace& workspace,
                                  CUstream_st* stream) {
  Shapes s = shapes_of(p);
  if (s.pieces == 1) return said(launch(p, s, x, y, false, stream));
  if (workspace.bytes < workspace_bytes(p))
    return "workspace: expected " + std::to_string(workspace_bytes(p)) + " bytes, found " +
           std::to_string(workspace.bytes);
  char* const between = static_cast<char*>(workspace.data) + counter_bytes;
  if (const cudaError_t e = launch(p, s, x, between, true, stream); e != cudaSuccess) return said(e);
  ReduceProblem last = p;
  last.kept = s.kept;
  return join_pieces(last, s.pieces, s.values, between, y, stream);
}

}  // namespace ridge::ops::cuda
