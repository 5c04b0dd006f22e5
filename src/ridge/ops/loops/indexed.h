// Code that gathers and scatters share: their axes, and dispatch on their dtypes once for each call.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "ridge/base/check.h"
#include "ridge/base/dtype_set.h"
#include "ridge/ops/loops/lines.h"
#include "ridge/ops/loops/problem.h"
#include "ridge/pool/isa.h"

namespace ridge::ops {

constexpr std::int64_t min_elements_per_part = 1 << 14;  // Waking a worker takes as long as some thousand elements.

// Calls f.operator()<T>() with the storage type of f32, bf16 or f16.
template <class F> void with_stored_type(DType dtype, const F& f) {
  const bool is_called = StoredFloats::dispatch(dtype, f);
  RIDGE_CHECK(is_called, "plan() accepts no other dtype");
}
template <class F> void with_index_type(DType dtype, const F& f) {
  if (dtype == DType::int8) return f.template operator()<std::int8_t>();
  f.template operator()<std::int32_t>();
}

// The merged axes: `inner` is the last one. It is a row if the index is the same along it.
struct IndexedAxes {
  std::vector<LoopAxis> outer;
  LoopAxis inner;
  explicit IndexedAxes(const std::vector<LoopAxis>& axes) : outer(merge_loop_axes(axes)), inner(take_last_axis(outer)) {
    if (inner.extent == 1) inner.values = inner.result = 1;
  }
  bool is_row() const { return inner.indices == 0; }
  bool is_contiguous_row() const { return is_row() && inner.values == 1 && inner.result == 1; }
};

// True if a gather's stores bypass the caches: not for short rows, whose ends are too large a part of them.
inline bool streams_rows(const GatherScatterLoops& l, const IndexedAxes& axes) {
  constexpr std::int64_t min_row_bytes = 1024;
  const std::int64_t row_bytes = axes.inner.extent * dtype_bits(l.result) / 8;
  return axes.is_contiguous_row() && row_bytes >= min_row_bytes &&
         count_points(axes.outer) * row_bytes > pool::cache_sizes().l3;
}

// Calls visit(offsets, index) for the points begin … end - 1 of the axes.
template <class Visit> void visit_indices(const GatherScatterLoops& l, const std::vector<LoopAxis>& axes,
                                          const void* indices, std::int64_t begin, std::int64_t end,
                                          const Visit& visit) {
  std::vector<LoopAxis> outer = axes;
  const LoopAxis last = take_last_axis(outer);
  with_index_type(l.indices, [&]<class Index>() {
    LoopCursor cursor(outer, begin / last.extent);
    for (std::int64_t point = begin; point < end; cursor.advance()) {
      std::int64_t i = point % last.extent;
      const std::int64_t stop = std::min(last.extent, i + end - point);
      point += stop - i;
      for (; i < stop; ++i) {
        const LoopAxis at{1, cursor.offsets().values + i * last.values, cursor.offsets().indices + i * last.indices,
                          cursor.offsets().result + i * last.result};
        visit(at, static_cast<std::int64_t>(static_cast<const Index*>(indices)[at.indices]));
      }
    }
  });
}

void run_gather(const GatherScatterLoops& l, std::span<void* const> data, int threads);
void run_scatter(const GatherScatterLoops& l, std::span<void* const> data, int threads);

}  // namespace ridge::ops
