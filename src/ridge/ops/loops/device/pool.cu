// Maxima and means of windows on a device. A thread computes adjacent elements along an axis without a window if that
// is contiguous in both tensors, as channels are when they are last, otherwise one element. The cache serves elements
// that several windows read.
#include <limits>

#include "ridge/ops/loops/cuda.h"
#include "ridge/ops/loops/device/loops.h"

namespace ridge::ops::cuda {
namespace {

constexpr int threads = 256, reads_in_flight = 3;

struct PoolLaunch {
  PoolAxis windows[max_pooled_axes];  // The last one varies fastest, except for the columns.
  DeviceLoopAxes others;
  const char* x;
  DevicePacks y;
  std::int64_t columns, items;  // Items are packs of elements; `columns` of them are contiguous.
  float window_elements;
};

// Returns index % extent and divides the index.
__device__ std::int64_t pop_index(std::int64_t& index, std::int64_t extent) {
  const std::int64_t rest = extent == 1 ? index : divide(index, extent), out = index - rest * extent;
  index = rest;
  return out;
}

// The elements of x in the windows of one pack of results. `first` are the positions of their first elements along each
// window axis, negative in the padding.
struct WindowPosition {
  std::int64_t x = 0, y = 0, first[max_pooled_axes];
};
__device__ WindowPosition find_windows(const PoolLaunch& run, std::int64_t item, int width) {
  WindowPosition out;
  out.x = out.y = pop_index(item, run.columns) * width;
#pragma unroll
  for (int w = max_pooled_axes - 1; w >= 0; --w) {
    const std::int64_t i = pop_index(item, run.windows[w].out);
    out.first[w] = i * run.windows[w].stride - run.windows[w].padding;
    out.y += i * run.windows[w].y_stride;
  }
  const DeviceOffsets at = offsets_at(run.others, item);
  out.x += at.values;
  out.y += at.result;
  return out;
}

template <bool is_maximum, int W> struct PoolSums {
  float values[W];
  template <NumberFormat from> __device__ void add(const Pack<from, W>& x, bool exists) {
#pragma unroll
    for (int i = 0; i < W; ++i) {
      if constexpr (is_maximum)
        values[i] = device_math::max(values[i], exists ? x[i] : -std::numeric_limits<float>::infinity());
      else
        values[i] += x[i];  // 0 if it does not exist
    }
  }
};

// Adds the elements along the last window axis; `row` is the offset of that axis's position 0.
template <NumberFormat from, bool is_maximum, int W>
__device__ void add_row(const PoolLaunch& run, std::int64_t row, std::int64_t first, PoolSums<is_maximum, W>& sums) {
  const PoolAxis& line = run.windows[max_pooled_axes - 1];
  for (std::int64_t k = 0; k < line.kernel; k += reads_in_flight) {
    Pack<from, W> x[reads_in_flight];
    bool exists[reads_in_flight];
#pragma unroll
    for (int u = 0; u < reads_in_flight; ++u) {
      const std::int64_t at = first + (k + u) * line.dilation;
      exists[u] = k + u < line.kernel && at >= 0 && at < line.in;
      x[u] = tile::cuda::read<from, W, W, CachePolicy::cached>(run.x, row + at * line.x_stride, exists[u]);
    }
#pragma unroll
    for (int u = 0; u < reads_in_flight; ++u) sums.template add<from>(x[u], exists[u]);
  }
}

template <NumberFormat from, bool is_maximum, int W> __global__ void __launch_bounds__(threads)
    pool_kernel(const PoolLaunch run) {
  const std::int64_t item = std::int64_t{blockIdx.x} * threads + threadIdx.x;
  if (item >= run.items) return;
  const WindowPosition position = find_windows(run, item, W);
  PoolSums<is_maximum, W> sums;
#pragma unroll
  for (int i = 0; i < W; ++i) sums.values[i] = is_maximum ? -std::numeric_limits<float>::infinity() : 0;
  const PoolAxis &outer = run.windows[0], &middle = run.windows[1];
  for (std::int64_t i = 0; i < outer.kernel; ++i) {
    const std::int64_t at_outer = position.first[0] + i * outer.dilation;
    if (at_outer < 0 || at_outer >= outer.in) continue;
    for (std::int64_t j = 0; j < middle.kernel; ++j) {
      const std::int64_t at_middle = position.first[1] + j * middle.dilation;
      if (at_middle < 0 || at_middle >= middle.in) continue;
      add_row<from>(run, position.x + at_outer * outer.x_stride + at_middle * middle.x_stride, position.first[2], sums);
    }
  }
  if constexpr (!is_maximum)
#pragma unroll
    for (int i = 0; i < W; ++i) sums.values[i] = __fdiv_rn(sums.values[i], run.window_elements);
  run.y.store(position.y, sums.values);
}

// The axes of a pool in the order of the kernel's loops.
struct SortedAxes {
  std::vector<PoolAxis> windows;
  std::vector<LoopAxis> others;
  std::int64_t columns = 1;  // Extent of an axis without a window that is contiguous in both tensors, or 1
};
SortedAxes sort_axes(const PoolLoops& pool) {
  SortedAxes out;
  for (const PoolAxis& axis : pool.axes) {
    if (axis.is_pooled())
      out.windows.push_back(axis);
    else if (axis.out > 1 && axis.x_stride == 1 && axis.y_stride == 1)
      out.columns = axis.out;
    else
      out.others.push_back({axis.out, axis.x_stride, 0, axis.y_stride});
  }
  std::stable_sort(out.windows.begin(), out.windows.end(),
                   [](const PoolAxis& a, const PoolAxis& b) { return a.y_stride > b.y_stride; });
  out.windows.insert(out.windows.begin(), max_pooled_axes - out.windows.size(), PoolAxis{});
  out.others = merge_loop_axes(out.others);
  return out;
}

// Returns how many contiguous elements a thread computes: those of 16 bytes of x, or 1.
int find_pack_width(const PoolLoops& pool, const SortedAxes& axes, std::span<void* const> data) {
  const int width = pack_width(pool.x);
  if (axes.columns % width != 0) return 1;
  std::vector<std::int64_t> x_distances, y_distances;
  for (const PoolAxis& axis : axes.windows) {
    x_distances.push_back(axis.in > 1 ? axis.x_stride : 0);
    y_distances.push_back(axis.out > 1 ? axis.y_stride : 0);
  }
  for (const LoopAxis& axis : axes.others) {
    x_distances.push_back(axis.values);
    y_distances.push_back(axis.result);
  }
  return fits_packs(pool.x, data[0], x_distances, width) && fits_packs(pool.y, data[1], y_distances, width) ? width : 1;
}

template <NumberFormat from, bool is_maximum> void launch_pool(const PoolLaunch& run, int width, cudaStream_t stream) {
  constexpr int packed = 16 / tile::cuda::size_of<from>;
  (width == packed ? pool_kernel<from, is_maximum, packed>
                   : pool_kernel<from, is_maximum, 1>)<<<blocks_for(run.items, threads), threads, 0, stream>>>(run);
}

}  // namespace

Status run_loops(const PoolLoops& pool, std::span<void* const> data, CUstream_st* stream) {
  const SortedAxes axes = sort_axes(pool);
  const int width = find_pack_width(pool, axes, data);
  PoolLaunch run{.others = make_device_axes(axes.others),
                 .x = static_cast<const char*>(data[0]),
                 .y = {static_cast<char*>(data[1]), pool.y},
                 .columns = axes.columns / width};
  run.items = run.others.points * run.columns;
  std::int64_t window_elements = 1;
  for (int w = 0; w < max_pooled_axes; ++w) {
    run.windows[w] = axes.windows[w];
    run.items *= run.windows[w].out;
    window_elements *= run.windows[w].kernel;
  }
  if (run.items == 0) return Done{};
  run.window_elements = static_cast<float>(window_elements);
  with_format(pool.x, [&]<NumberFormat from>() {
    pool.is_maximum ? launch_pool<from, true>(run, width, stream) : launch_pool<from, false>(run, width, stream);
  });
  return device::to_status(cudaGetLastError(), "launching a pool");
}

}  // namespace ridge::ops::cuda
