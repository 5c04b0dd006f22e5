// Routed products on a device, each row with the weights of its own expert: no rows are sorted, so that few rows, such
// as the tokens of a step of decoding, take one kernel. Rows of the same expert read its weights again, mostly from the
// L2; many rows are better sorted by expert for a grouped product (plan/lower_loops.cc).
#include "ridge/ops/loops/cuda.h"
#include "ridge/ops/loops/device/loops.h"
#include "ridge/ops/loops/routed.h"

namespace ridge::ops::cuda {
namespace {

constexpr int threads = 256, warp_threads = 32, columns_per_warp = 4, loads = 2;

struct RoutedLaunch {
  DeviceLoopAxes rows,
      row_weights;         // Axes along which x or the index differs; `row_weights` has strides of the weights
  DeviceLoopAxes columns;  // The other axes of the result, with strides of the weights as `values`
  DeviceLoopAxes summed;   // With strides of the weights as `result`
  DeviceFloats x, weights;
  DeviceIndices indices;
  DevicePacks y;
  std::int64_t experts, expert_stride, column_groups, items;
};

// Adds the products of the terms of a thread. Summed elements are adjacent in both operands, in packs of W.
template <NumberFormat format, int W> struct AdjacentTerms {
  __device__ static void add(const RoutedLaunch& run, std::int64_t x, const std::int64_t (&w)[columns_per_warp],
                             float (&sum)[columns_per_warp]) {
    const auto* const from_x = static_cast<const char*>(run.x.data);
    const auto* const from_w = static_cast<const char*>(run.weights.data);
    constexpr std::int64_t step = warp_threads * W;
    for (std::int64_t at = threadIdx.x % warp_threads * W; at < run.summed.points; at += step * loads) {
      Pack<format, W> a[loads], b[loads][columns_per_warp];
#pragma unroll
      for (int u = 0; u < loads; ++u) {
        const std::uint32_t exists = at + u * step < run.summed.points;
#pragma unroll
        for (int c = 0; c < columns_per_warp; ++c)
          b[u][c] = tile::cuda::read<format, W, W, CachePolicy::cached>(from_w, w[c] + at + u * step, exists);
        a[u] = tile::cuda::read<format, W, W, CachePolicy::cached>(from_x, x + at + u * step, exists);
      }
#pragma unroll
      for (int u = 0; u < loads; ++u)
#pragma unroll
        for (int c = 0; c < columns_per_warp; ++c)
#pragma unroll
          for (int i = 0; i < W; ++i) sum[c] += a[u][i] * b[u][c][i];
    }
  }
};
// The same for operands of any strides and formats.
struct StridedTerms {
  __device__ static void add(const RoutedLaunch& run, std::int64_t x, const std::int64_t (&w)[columns_per_warp],
                             float (&sum)[columns_per_warp]) {
    for (std::int64_t at = threadIdx.x % warp_threads; at < run.summed.points; at += warp_threads) {
      const DeviceOffsets term = offsets_at(run.summed, at);
      const float a = run.x(x + term.values);
#pragma unroll
      for (int c = 0; c < columns_per_warp; ++c) sum[c] += a * run.weights(w[c] + term.result);
    }
  }
};

// A warp computes a few columns of a row.
template <class Terms> __global__ void __launch_bounds__(threads) routed_kernel(const RoutedLaunch run) {
  device::start_after_earlier_kernels();
  const std::int64_t item = (std::int64_t{blockIdx.x} * threads + threadIdx.x) / warp_threads;
  if (item >= run.items) return;
  const std::int64_t row = divide(item, run.column_groups), first = (item - row * run.column_groups) * columns_per_warp;
  const DeviceOffsets of = offsets_at(run.rows, row);
  const std::int64_t expert = run.indices(of.indices);
  const std::int64_t weights = expert * run.expert_stride + offsets_at(run.row_weights, row).values;
  std::int64_t w[columns_per_warp], results[columns_per_warp];
#pragma unroll
  for (int c = 0; c < columns_per_warp; ++c) {
    const DeviceOffsets at = offsets_at(run.columns, min(first + c, run.columns.points - 1));
    w[c] = weights + at.values;
    results[c] = of.result + at.result;
  }
  float sum[columns_per_warp] = {};
  if (expert >= 0 && expert < run.experts) Terms::add(run, of.values, w, sum);
#pragma unroll
  for (int c = 0; c < columns_per_warp; ++c) {
#pragma unroll
    for (int across = warp_threads / 2; across > 0; across /= 2) sum[c] += __shfl_xor_sync(~0u, sum[c], across);
    const float one[1] = {sum[c]};
    if (threadIdx.x % warp_threads == c && first + c < run.columns.points) run.y.store(results[c], one);
  }
}

template <class Terms> cudaError_t launch_routed(const RoutedLaunch& run, cudaStream_t stream) {
  const device::LaunchShape shape{.blocks = blocks_for(run.items, threads / warp_threads), .threads = threads};
  return device::launch_dependent(routed_kernel<Terms>, shape, stream, run);
}

}  // namespace

Status run_loops(const RoutedProductLoops& l, std::span<void* const> data, CUstream_st* stream) {
  const RoutedAxes axes(l);
  RoutedLaunch run{.rows = make_device_axes(axes.rows),
                   .row_weights = make_device_axes(axes.row_weights),
                   .columns = make_device_axes(axes.columns),
                   .summed = make_device_axes(axes.summed),
                   .x = {data[0], l.values},
                   .weights = {data[1], l.weights},
                   .indices = {data[2], l.indices == DType::int8},
                   .y = {static_cast<char*>(data[3]), l.result},
                   .experts = l.experts,
                   .expert_stride = l.expert_stride};
  run.column_groups = (run.columns.points + columns_per_warp - 1) / columns_per_warp;
  run.items = run.rows.points * run.column_groups;
  if (run.items == 0) return Done{};
  const int width = pack_width(l.values);
  cudaError_t error = cudaSuccess;
  if (!axes.are_terms_adjacent(l, width) || !fits_packs(l.values, data[0], {}, width) ||
      !fits_packs(l.weights, data[1], {}, width)) {
    error = launch_routed<StridedTerms>(run, stream);
  } else {
    with_format(l.values, [&]<NumberFormat format>() {
      error = launch_routed<AdjacentTerms<format, 16 / tile::cuda::size_of<format>>>(run, stream);
    });
  }
  return device::to_status(error, "launching a routed product");
}

}  // namespace ridge::ops::cuda
