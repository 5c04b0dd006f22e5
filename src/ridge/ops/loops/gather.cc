// Gathers. If the index is the same along the last axis, its elements are a row, which is copied at once.
#include "ridge/ops/loops/indexed.h"

#include "ridge/ops/loops/cpu.h"
#include "ridge/ops/loops/isa_kernels.h"
#include "ridge/pool/isa.h"

namespace ridge::ops {

void copy_rows(const RowCopies& copies) {
  pool::select_for_isa(plain::copy_rows, avx2::copy_rows, avx512::copy_rows)(copies);
}

namespace {

struct GatherRun {
  const GatherScatterLoops& l;
  std::span<void* const> data;
  IndexedAxes axes;
  bool streams, prefetches;

  void copy_contiguous_rows(std::int64_t begin, std::int64_t end) const {
    std::array<RowOffsets, 128> rows;
    std::size_t count = 0;
    const auto copy = [&] {
      copy_rows({l.values, l.result, data[0], data[2], axes.inner.extent, streams, prefetches, {rows.data(), count}});
      count = 0;
    };
    visit_indices(l, axes.outer, data[1], begin, end, [&](const LoopAxis& at, std::int64_t index) {
      rows[count++] = {at.values + index * l.index_stride, at.result};
      if (count == rows.size()) copy();
    });
    copy();
  }

  // Copies single elements: the index may differ for each, and strides are arbitrary.
  template <class From, class To, class Index> void copy_elements(std::int64_t begin, std::int64_t end) const {
    const auto* const from = static_cast<const From*>(data[0]);
    const auto* const indices = static_cast<const Index*>(data[1]);
    auto* const to = static_cast<To*>(data[2]);
    LoopCursor cursor(axes.outer, begin);
    for (std::int64_t point = begin; point < end; ++point, cursor.advance()) {
      const LoopAxis& at = cursor.offsets();
      for (std::int64_t i = 0; i < axes.inner.extent; ++i) {
        const std::int64_t index = indices[at.indices + i * axes.inner.indices];
        const From& x = from[at.values + i * axes.inner.values + index * l.index_stride];
        if constexpr (std::is_same_v<From, To>)
          to[at.result + i * axes.inner.result] = x;
        else
          to[at.result + i * axes.inner.result] = round_to<To>(static_cast<float>(to_double(x)));
      }
    }
  }
  void copy_single_elements(std::int64_t begin, std::int64_t end) const {
    with_stored_type(l.values, [&]<class From>() {
      with_stored_type(l.result, [&]<class To>() {
        with_index_type(l.indices, [&]<class Index>() { copy_elements<From, To, Index>(begin, end); });
      });
    });
  }
};

}  // namespace

void run_gather(const GatherScatterLoops& l, std::span<void* const> data, int threads) {
  const IndexedAxes axes(l.axes);
  const std::int64_t points = count_points(axes.outer);
  const std::int64_t table_bytes = l.index_extent * std::abs(l.index_stride) * dtype_bits(l.values) / 8;
  const GatherRun run{l, data, axes, streams_rows(l, axes), table_bytes > pool::cache_sizes().l2};
  run_in_parts(points, min_elements_per_part / axes.inner.extent, threads, [&](std::int64_t begin, std::int64_t end) {
    axes.is_contiguous_row() ? run.copy_contiguous_rows(begin, end) : run.copy_single_elements(begin, end);
  });
}

}  // namespace ridge::ops
