// Code that the two ways to scatter share on a device. For .cu files.
#pragma once

#include "ridge/ops/loops/device/indexed.h"

namespace ridge::ops::cuda {

using ScatterKey = std::uint32_t;

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

inline std::int64_t count_targets(const GatherScatterLoops& l, const ScatterAxes& axes) {
  return axes.batch_count * l.index_extent;
}

// Returns the offset of a point of the axes. Most scatters have one merged axis of rows; this code is short for them,
// and a kernel of a few microseconds spends much of its time reading its code.
__device__ inline std::int64_t find_offset(const DeviceLoopAxes& axes, const std::int64_t (&strides)[max_device_axes],
                                           std::int64_t point) {
  std::int64_t at = 0;
#pragma unroll 1
  for (int i = axes.count - 1; i > 0; --i) {
    const std::int64_t rest = divide(point, axes.extents[i]);
    at += (point - rest * axes.extents[i]) * strides[i];
    point = rest;
  }
  return at + point * strides[0];
}

// A target is a row of the result, counted over all batches.
struct ScatterRun {
  DeviceLoopAxes batches, rows, columns;
  DeviceIndices indices;
  const char* values;
  char* result;
  std::int64_t rows_per_batch, row_count, targets_per_batch, target_count, index_stride;

  // Returns the target that the row is added to, or `target_count` if its index is out of range.
  __device__ ScatterKey find_target(std::int64_t row) const {
    const std::int64_t index = indices(find_offset(rows, rows.indices, row));
    if (index < 0 || index >= targets_per_batch) return static_cast<ScatterKey>(target_count);
    const std::int64_t batch = batches.count == 0 ? 0 : divide(row, rows_per_batch);
    return static_cast<ScatterKey>(batch * targets_per_batch + index);
  }
  // Returns the offset of the target's first element in the result.
  __device__ std::int64_t find_result(std::int64_t target) const {
    if (batches.count == 0) return target * index_stride;
    const std::int64_t batch = divide(target, targets_per_batch);
    return find_offset(batches, batches.result, batch) + (target - batch * targets_per_batch) * index_stride;
  }
};

// Allocates parts of a workspace, each aligned to 256 bytes.
class WorkspaceParts {
 public:
  explicit WorkspaceParts(void* workspace) : workspace_(static_cast<char*>(workspace)) {}
  void* allocate(std::size_t bytes) {
    constexpr std::size_t alignment = 256;
    void* const begin = workspace_ + bytes_;
    bytes_ += (bytes + alignment - 1) / alignment * alignment;
    return begin;
  }
  ScatterKey* allocate_keys(std::int64_t count) {
    return static_cast<ScatterKey*>(allocate(static_cast<std::size_t>(count) * sizeof(ScatterKey)));
  }
  std::size_t bytes() const { return bytes_; }

 private:
  char* workspace_;
  std::size_t bytes_ = device::counter_bytes;
};

// Scatters with two kernels and without a sort of all rows; scatter_buckets.cu.
inline bool can_scatter_by_buckets(const GatherScatterLoops& l, const ScatterAxes& axes) {
  return count_targets(l, axes) <= max_bucketed_targets;
}
std::size_t bucket_workspace_bytes(const GatherScatterLoops& l, const ScatterAxes& axes);
// `width` is the number of adjacent elements that one access covers.
Status scatter_by_buckets(const GatherScatterLoops& l, const ScatterAxes& axes, const ScatterRun& run, int width,
                          const device::DeviceWorkspace& workspace, CUstream_st* stream);

}  // namespace ridge::ops::cuda
