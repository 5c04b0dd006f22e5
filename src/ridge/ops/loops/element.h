// Loads and stores of single elements, and distribution of loops over threads.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "ridge/base/check.h"
#include "ridge/base/dtype_set.h"
#include "ridge/ops/loops/lines.h"
#include "ridge/ops/loops/problem.h"
#include "ridge/pool/pool.h"

namespace ridge::ops {

inline double load_element(DType dtype, const void* data, std::int64_t i) {
  double value = 0;
  const bool is_loaded =
      StorageDTypes::dispatch(dtype, [&]<class T>() { value = to_double(static_cast<const T*>(data)[i]); });
  RIDGE_CHECK(is_loaded, "plan() accepts no other dtype");
  return value;
}

inline void store_element(DType dtype, void* data, std::int64_t i, double value) {
  const auto rounded = static_cast<float>(value);
  const bool is_stored =
      StoredFloats::dispatch(dtype, [&]<class T>() { static_cast<T*>(data)[i] = round_to<T>(rounded); });
  RIDGE_CHECK(is_stored, "plan() accepts no other dtype");
}

inline std::int64_t load_index(DType dtype, const void* data, std::int64_t i) {
  return dtype == DType::int8 ? static_cast<const std::int8_t*>(data)[i] : static_cast<const std::int32_t*>(data)[i];
}

// Calls work(i) for i = 0 … count - 1; each thread gets a contiguous range.
template <class Work> void parallel_for(std::int64_t count, int threads, const Work& work) {
  const int parts = static_cast<int>(std::min<std::int64_t>(std::max(threads, 1), std::max<std::int64_t>(count, 1)));
  pool::run_parallel(parts, [&](int part) {
    const pool::WorkSlice mine = pool::split_evenly(count, parts, part);
    for (std::int64_t i = mine.begin; i < mine.end; ++i) work(i);
  });
}

inline LoopAxis offsets_at(const std::vector<LoopAxis>& axes, std::int64_t point) {
  LoopAxis out;
  for (auto axis = axes.rbegin(); axis != axes.rend(); ++axis) {
    const std::int64_t at = point % axis->extent;
    point /= axis->extent;
    out.values += at * axis->values;
    out.indices += at * axis->indices;
    out.result += at * axis->result;
  }
  return out;
}

}  // namespace ridge::ops
