// Scatters on a device, without atomics on sums: a stable sort groups the rows that are added to one row of the result,
// in the order of their indices, and each row of the result is summed in f32 and written once.
//   indices 2 0 2: the keys 0 2 2 with the rows 1 0 2; row 0 begins at key 0, row 1 at 1, row 2 at 1
#include <cub/device/device_radix_sort.cuh>

#include <bit>

#include "ridge/ops/loops/device/indexed.h"

namespace ridge::ops::cuda {
namespace {

using Key = std::uint32_t;

constexpr int threads = 256, rows_at_once = 4;  // Rows whose loads are in flight together

// The axes of the values. `rows` are those that the indices have: first those that the result has, too, which are
// batches, then the others, whose rows are summed. `columns` are those that only the result has.
struct ScatterAxes {
  std::vector<LoopAxis> batches, rows, columns;
  std::int64_t batch_count = 1, row_count = 1, rows_per_batch = 1, column_count = 1;

  explicit ScatterAxes(const GatherScatterLoops& l) {
    std::vector<LoopAxis> listed;
    for (const LoopAxis& axis : l.axes) {
      if (axis.extent == 1) continue;
      if (axis.result == 0)
        listed.push_back(axis);
      else
        (axis.indices == 0 ? columns : batches).push_back(axis);
    }
    batches = merge_loop_axes(batches);
    columns = merge_loop_axes(columns);
    listed = merge_loop_axes(listed);
    rows = batches;
    rows.insert(rows.end(), listed.begin(), listed.end());
    batch_count = count_points(batches);
    rows_per_batch = count_points(listed);
    row_count = batch_count * rows_per_batch;
    column_count = count_points(columns);
  }
  bool has_contiguous_columns() const {
    return columns.size() == 1 && columns[0].values == 1 && columns[0].result == 1;
  }
};

struct ScatterRun {
  DeviceLoopAxes batches, rows, columns;
  DeviceIndices indices;
  const char* values;
  char* result;
  std::int64_t rows_per_batch, row_count, targets_per_batch, target_count, index_stride, column_groups;
};

// Writes the key of each row: the row of the result, counted over all batches, that it is added to. Rows whose index is
// out of range get the key `target_count`, which no row of the result has.
__global__ void __launch_bounds__(threads) write_keys_kernel(const ScatterRun run, Key* keys, Key* positions) {
  const std::int64_t row = std::int64_t{blockIdx.x} * threads + threadIdx.x;
  if (row >= run.row_count) return;
  const std::int64_t index = run.indices(offsets_at(run.rows, row).indices);
  const std::int64_t batch = divide(row, run.rows_per_batch);
  const bool is_in_range = index >= 0 && index < run.targets_per_batch;
  keys[row] = static_cast<Key>(is_in_range ? batch * run.targets_per_batch + index : run.target_count);
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
    sum_rows_kernel(const ScatterRun run, const Key* starts, const Key* positions) {
  const std::int64_t first = std::int64_t{blockIdx.x} * (threads * each) + threadIdx.x;
  std::int64_t target[each], column[each], begin[each], end[each];
#pragma unroll
  for (int u = 0; u < each; ++u) {
    const std::int64_t item = first + u * threads;
    target[u] = divide(item, run.column_groups);
    column[u] = (item - target[u] * run.column_groups) * W;
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
    const std::int64_t batch = divide(target[u], run.targets_per_batch);
    const std::int64_t at = offsets_at(run.batches, batch).result +
                            (target[u] - batch * run.targets_per_batch) * run.index_stride + at_column.result;
    tile::cuda::write<to, W, W, CachePolicy::cached>(run.result, at, sums);
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
  std::size_t at = device::counter_bytes;
  const auto place = [&](std::int64_t bytes) {
    constexpr std::size_t alignment = 256;
    void* const begin = static_cast<char*>(workspace) + at;
    at += (static_cast<std::size_t>(bytes) + alignment - 1) / alignment * alignment;
    return begin;
  };
  const auto place_keys = [&](std::int64_t count) {
    return static_cast<Key*>(place(count * std::int64_t{sizeof(Key)}));
  };
  out.keys = {place_keys(axes.row_count), place_keys(axes.row_count)};
  out.positions = {place_keys(axes.row_count), place_keys(axes.row_count)};
  out.starts = place_keys(targets + 1);
  if (sort_rows(out, axes.row_count, targets, nullptr) != cudaSuccess) cudaGetLastError();  // Only counts the scratch
  out.scratch = place(static_cast<std::int64_t>(out.scratch_bytes));
  out.bytes = at;
  return out;
}

std::int64_t count_targets(const GatherScatterLoops& l, const ScatterAxes& axes) {
  return axes.batch_count * l.index_extent;
}

void sum_sorted_rows(const GatherScatterLoops& l, ScatterRun& run, std::int64_t columns, int width, SortBuffers& sorted,
                     cudaStream_t stream) {
  constexpr int many = 4;  // items of a thread if there are more rows of the result than rows to add
  with_format(l.values, [&]<NumberFormat from>() {
    with_format(l.result, [&]<NumberFormat to>() {
      constexpr int wide = 16 / std::max(tile::cuda::size_of<from>, tile::cuda::size_of<to>);
      const bool is_wide = width >= wide;
      run.column_groups = columns / (is_wide ? wide : 1);
      const auto launch = [&](auto kernel, int each) {
        kernel<<<blocks_for(run.target_count * run.column_groups, std::int64_t{threads} * each), threads, 0, stream>>>(
            run, sorted.starts, sorted.positions.Current());
      };
      if (!is_wide)
        launch(sum_rows_kernel<from, to, 1, 1>, 1);
      else if (run.target_count > 2 * run.row_count)
        launch(sum_rows_kernel<from, to, wide, many>, many);
      else
        launch(sum_rows_kernel<from, to, wide, 1>, 1);
    });
  });
}

}  // namespace

std::size_t workspace_bytes(const GatherScatterLoops& l) {
  if (!l.is_scatter) return 0;
  const ScatterAxes axes(l);
  return make_sort_buffers(axes, count_targets(l, axes), nullptr).bytes;
}

Status run_scatter(const GatherScatterLoops& l, std::span<void* const> data, const device::DeviceWorkspace& workspace,
                   CUstream_st* stream) {
  const ScatterAxes axes(l);
  const std::int64_t targets = count_targets(l, axes);
  if (targets * axes.column_count == 0) return Done{};
  SortBuffers sorted = make_sort_buffers(axes, targets, workspace.data);
  RIDGE_TRY_STATUS(device::check_workspace(workspace, sorted.bytes));
  ScatterRun run{.batches = make_device_axes(axes.batches),
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
  write_keys_kernel<<<blocks_for(axes.row_count, threads), threads, 0, stream>>>(run, sorted.keys.Current(),
                                                                                 sorted.positions.Current());
  RIDGE_TRY_STATUS(device::to_status(sort_rows(sorted, axes.row_count, targets, stream), "sorting a scatter's rows"));
  find_starts_kernel<<<blocks_for(targets + 1, threads), threads, 0, stream>>>(run, sorted.keys.Current(),
                                                                               sorted.starts);
  const int width =
      axes.has_contiguous_columns() ? find_row_width(l, axes.rows, axes.column_count, data[0], data[2]) : 1;
  sum_sorted_rows(l, run, axes.column_count, width, sorted, stream);
  return device::to_status(cudaGetLastError(), "launching a scatter");
}

Status run_loops(const GatherScatterLoops& l, std::span<void* const> data, const device::DeviceWorkspace& workspace,
                 CUstream_st* stream) {
  return l.is_scatter ? run_scatter(l, data, workspace, stream) : run_gather(l, data, stream);
}

}  // namespace ridge::ops::cuda
