// Scatters on a device, without atomics: each row of the result is summed in f32, in the order of the rows that are
// added to it, and written once. Up to some hundred thousand rows of the result are divided into buckets
// (scatter_buckets.cu). For more, a stable sort groups the rows that are added to one row of the result.
//   indices 2 0 2: the keys 0 2 2 with the rows 1 0 2; row 0 begins at key 0, row 1 at 1, row 2 at 1
#include <cub/device/device_radix_sort.cuh>

#include <bit>

#include "ridge/ops/loops/device/scatter.h"

namespace ridge::ops::cuda {
namespace {

using Key = ScatterKey;

constexpr int threads = 256, rows_at_once = 4;  // Rows whose loads are in flight together

// Writes the key of each row, its target.
__global__ void __launch_bounds__(threads) write_keys_kernel(const ScatterRun run, Key* keys, Key* positions) {
  const std::int64_t row = std::int64_t{blockIdx.x} * threads + threadIdx.x;
  if (row >= run.row_count) return;
  keys[row] = run.find_target(row);
  positions[row] = static_cast<Key>(row);
}

// Writes for each row of the result, and one past the last, the number of sorted keys below it.
__global__ void __launch_bounds__(threads) find_starts_kernel(const ScatterRun run, const Key* keys, Key* starts) {
  const std::int64_t target = std::int64_t{blockIdx.x} * threads + threadIdx.x;
  if (target > run.target_count) return;
  std::int64_t begin = 0, end = run.row_count;
  while (begin < end) {
    const std::int64_t middle = (begin + end) / 2;
    if (keys[middle] < target)
      begin = middle + 1;
    else
      end = middle;
  }
  starts[target] = static_cast<Key>(begin);
}

// Returns the sums of the rows from sorted key `begin` to `end`, in order, for W columns whose values begin at
// `column`.
template <NumberFormat from, int W> __device__ void sum_rows(const ScatterRun& run, const Key* positions,
                                                             std::int64_t begin, std::int64_t end, std::int64_t column,
                                                             float (&sums)[W]) {
  for (std::int64_t i = begin; i < end; i += rows_at_once) {
    Pack<from, W> x[rows_at_once];
#pragma unroll
    for (int u = 0; u < rows_at_once; ++u) {
      const bool exists = i + u < end;
      const std::int64_t row = exists ? offsets_at(run.rows, positions[i + u]).values : 0;
      x[u] = tile::cuda::read<from, W, W, CachePolicy::cached>(run.values, row + column, exists);
    }
#pragma unroll
    for (int u = 0; u < rows_at_once; ++u)
      if (i + u < end)
#pragma unroll
        for (int c = 0; c < W; ++c) sums[c] += x[u][c];
  }
}

// Each thread sums W adjacent columns of `each` rows of the result. Most rows may have nothing to add; with several
// of them, the loads of their starts are in flight together.
template <NumberFormat from, NumberFormat to, int W, int each> __global__ void __launch_bounds__(threads)
    sum_rows_kernel(const ScatterRun run, std::int64_t column_groups, const Key* starts, const Key* positions) {
  const std::int64_t first = std::int64_t{blockIdx.x} * (threads * each) + threadIdx.x;
  std::int64_t target[each], column[each], begin[each], end[each];
#pragma unroll
  for (int u = 0; u < each; ++u) {
    const std::int64_t item = first + u * threads;
    target[u] = divide(item, column_groups);
    column[u] = (item - target[u] * column_groups) * W;
    const bool exists = target[u] < run.target_count;
    begin[u] = exists ? starts[target[u]] : 0;
    end[u] = exists ? starts[target[u] + 1] : 0;
  }
#pragma unroll
  for (int u = 0; u < each; ++u) {
    if (target[u] >= run.target_count) return;
    const DeviceOffsets at_column = W > 1 ? DeviceOffsets{column[u], 0, column[u]} : offsets_at(run.columns, column[u]);
    float sums[W] = {};
    sum_rows<from, W>(run, positions, begin[u], end[u], at_column.values, sums);
    tile::cuda::write<to, W, W, CachePolicy::cached>(run.result, run.find_result(target[u]) + at_column.result, sums);
  }
}

// The workspace of a scatter: keys and positions of the rows before and after sorting, starts, and scratch of the sort.
struct SortBuffers {
  cub::DoubleBuffer<Key> keys, positions;
  Key* starts = nullptr;
  void* scratch = nullptr;
  std::size_t scratch_bytes = 0, bytes = 0;
};
cudaError_t sort_rows(SortBuffers& buffers, std::int64_t rows, std::int64_t targets, cudaStream_t stream) {
  return cub::DeviceRadixSort::SortPairs(buffers.scratch, buffers.scratch_bytes, buffers.keys, buffers.positions,
                                         static_cast<int>(rows), 0,
                                         static_cast<int>(std::bit_width(static_cast<std::uint64_t>(targets))), stream);
}
SortBuffers make_sort_buffers(const ScatterAxes& axes, std::int64_t targets, void* workspace) {
  SortBuffers out;
  WorkspaceParts parts(workspace);
  Key* arrays[4];
  for (Key*& array : arrays) array = parts.allocate_keys(axes.row_count);
  out.keys = {arrays[0], arrays[1]};
  out.positions = {arrays[2], arrays[3]};
  out.starts = parts.allocate_keys(targets + 1);
  if (sort_rows(out, axes.row_count, targets, nullptr) != cudaSuccess) cudaGetLastError();  // Only counts the scratch
  out.scratch = parts.allocate(out.scratch_bytes);
  out.bytes = parts.bytes();
  return out;
}

void sum_sorted_rows(const GatherScatterLoops& l, const ScatterRun& run, std::int64_t columns, int width,
                     SortBuffers& sorted, cudaStream_t stream) {
  constexpr int many = 4;  // Items of a thread
  with_format(l.values, [&]<NumberFormat from>() {
    with_format(l.result, [&]<NumberFormat to>() {
      constexpr int wide = 16 / std::max(tile::cuda::size_of<from>, tile::cuda::size_of<to>);
      const bool is_wide = width >= wide;
      const std::int64_t groups = columns / (is_wide ? wide : 1);
      const auto launch = [&](auto kernel, int each) {
        kernel<<<blocks_for(run.target_count * groups, std::int64_t{threads} * each), threads, 0, stream>>>(
            run, groups, sorted.starts, sorted.positions.Current());
      };
      is_wide ? launch(sum_rows_kernel<from, to, wide, many>, many) : launch(sum_rows_kernel<from, to, 1, 1>, 1);
    });
  });
}

Status scatter_by_sort(const GatherScatterLoops& l, const ScatterAxes& axes, const ScatterRun& run, int width,
                       const device::DeviceWorkspace& workspace, cudaStream_t stream) {
  SortBuffers sorted = make_sort_buffers(axes, run.target_count, workspace.data);
  RIDGE_TRY_STATUS(device::check_workspace(workspace, sorted.bytes));
  if (axes.row_count > 0)
    write_keys_kernel<<<blocks_for(axes.row_count, threads), threads, 0, stream>>>(run, sorted.keys.Current(),
                                                                                   sorted.positions.Current());
  RIDGE_TRY_STATUS(
      device::to_status(sort_rows(sorted, axes.row_count, run.target_count, stream), "sorting a scatter's rows"));
  find_starts_kernel<<<blocks_for(run.target_count + 1, threads), threads, 0, stream>>>(run, sorted.keys.Current(),
                                                                                        sorted.starts);
  sum_sorted_rows(l, run, axes.column_count, width, sorted, stream);
  return device::to_status(cudaGetLastError(), "launching a scatter");
}

}  // namespace

std::size_t workspace_bytes(const GatherScatterLoops& l) {
  if (!l.is_scatter) return 0;
  const ScatterAxes axes(l);
  return can_scatter_by_buckets(l, axes) ? bucket_workspace_bytes(l, axes)
                                         : make_sort_buffers(axes, count_targets(l, axes), nullptr).bytes;
}

Status run_scatter(const GatherScatterLoops& l, std::span<void* const> data, const device::DeviceWorkspace& workspace,
                   CUstream_st* stream) {
  const ScatterAxes axes(l);
  const std::int64_t targets = count_targets(l, axes);
  if (targets * axes.column_count == 0) return Done{};
  const ScatterRun run{.batches = make_device_axes(axes.batches),
                       .rows = make_device_axes(axes.rows),
                       .columns = make_device_axes(axes.columns),
                       .indices = {data[1], l.indices == DType::int8},
                       .values = static_cast<const char*>(data[0]),
                       .result = static_cast<char*>(data[2]),
                       .rows_per_batch = axes.rows_per_batch,
                       .row_count = axes.row_count,
                       .targets_per_batch = l.index_extent,
                       .target_count = targets,
                       .index_stride = l.index_stride};
  const int width =
      axes.has_contiguous_columns() ? find_row_width(l, axes.rows, axes.column_count, data[0], data[2]) : 1;
  return can_scatter_by_buckets(l, axes) ? scatter_by_buckets(l, axes, run, width, workspace, stream)
                                         : scatter_by_sort(l, axes, run, width, workspace, stream);
}

Status run_loops(const GatherScatterLoops& l, std::span<void* const> data, const device::DeviceWorkspace& workspace,
                 CUstream_st* stream) {
  return l.is_scatter ? run_scatter(l, data, workspace, stream) : run_gather(l, data, stream);
}

}  // namespace ridge::ops::cuda
