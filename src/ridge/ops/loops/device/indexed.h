// Code that gathers and scatters share on a device. For .cu files.
#pragma once

#include <span>

#include "ridge/ops/loops/cuda.h"
#include "ridge/ops/loops/device/loops.h"
#include "ridge/ops/loops/indexed.h"

namespace ridge::ops::cuda {

// Returns how many adjacent elements of a row one access of at most 16 bytes covers, in the values and in the result. A
// row has `elements` contiguous elements; `outer` are the other axes.
inline int find_row_width(const GatherScatterLoops& l, const std::vector<LoopAxis>& outer, std::int64_t elements,
                          const void* values, const void* result) {
  const std::int64_t value_bytes = dtype_bits(l.values) / 8, result_bytes = dtype_bits(l.result) / 8;
  std::vector<std::int64_t> value_distances{elements * value_bytes}, result_distances{elements * result_bytes};
  for (const LoopAxis& axis : outer) {
    value_distances.push_back(axis.values * value_bytes);
    result_distances.push_back(axis.result * result_bytes);
  }
  (l.is_scatter ? result_distances : value_distances)
      .push_back(l.index_stride * (l.is_scatter ? result_bytes : value_bytes));
  return static_cast<int>(std::min(widest_word({values}, value_distances) / value_bytes,
                                   widest_word({result}, result_distances) / result_bytes));
}

Status run_gather(const GatherScatterLoops& l, std::span<void* const> data, CUstream_st* stream);
Status run_scatter(const GatherScatterLoops& l, std::span<void* const> data, const device::DeviceWorkspace& workspace,
                   CUstream_st* stream);

}  // namespace ridge::ops::cuda
