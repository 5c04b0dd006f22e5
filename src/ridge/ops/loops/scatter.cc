// Scatters. The rows that are added to one row of the result are listed in the order of their indices and summed in
// f32, so that each row of the result is written once and no sum depends on the number of threads. Threads divide the
// columns, or else the result's rows.
#include "ridge/ops/loops/cpu.h"
#include "ridge/ops/loops/indexed.h"
#include "ridge/ops/loops/isa_kernels.h"
#include "ridge/pool/isa.h"

namespace ridge::ops {

void sum_rows(const RowSums& sums) { pool::select_for_isa(plain::sum_rows, avx2::sum_rows, avx512::sum_rows)(sums); }

namespace {

constexpr std::int64_t min_listed_elements = 32;  // Shorter rows are added one by one: listing them takes longer.

// Part of the result that one thread computes.
struct ScatterPart {
  pool::WorkSlice columns, rows;
};

// A scatter of contiguous rows. `batch` are the outer axes that the result has, `listed` the others.
struct RowScatter {
  const GatherScatterLoops& l;
  std::span<void* const> data;
  LoopAxis inner;
  std::vector<LoopAxis> batch, listed;

  RowScatter(const GatherScatterLoops& loops, std::span<void* const> buffers, const IndexedAxes& axes)
      : l(loops), data(buffers), inner(axes.inner) {
    for (const LoopAxis& axis : axes.outer) (axis.result != 0 ? batch : listed).push_back(axis);
  }

  // Lists the source rows of each of the part's rows, in the order of the indices: a counting sort.
  struct RowLists {
    std::vector<std::int64_t> ends, sources;
  };
  void list_rows(const LoopAxis& at, const ScatterPart& part, RowLists& out) const {
    const std::int64_t points = count_points(listed), first = part.rows.begin, rows = part.rows.end - first;
    const auto* const indices = static_cast<const char*>(data[1]) + at.indices * dtype_bits(l.indices) / 8;
    const auto visit_listed = [&](const auto& visit) {
      visit_indices(l, listed, indices, 0, points, [&](const LoopAxis& from, std::int64_t index) {
        if (index >= first && index < part.rows.end) visit(from.values, index - first);
      });
    };
    out.ends.assign(rows + 1, 0);
    visit_listed([&](std::int64_t, std::int64_t row) { ++out.ends[row + 1]; });
    for (std::int64_t row = 0; row < rows; ++row) out.ends[row + 1] += out.ends[row];
    out.sources.resize(out.ends[rows]);
    visit_listed([&](std::int64_t from, std::int64_t row) { out.sources[out.ends[row]++] = from + at.values; });
    out.ends.pop_back();  // ends[row] was its first source and is now one past its last one
  }

  void run_part(const ScatterPart& part, bool streams) const {
    RowLists lists;
    const std::int64_t columns = part.columns.end - part.columns.begin;
    std::vector<float> scratch(columns);
    LoopCursor cursor(batch, 0);
    for (std::int64_t point = count_points(batch); point > 0; --point, cursor.advance()) {
      const LoopAxis& at = cursor.offsets();
      list_rows(at, part, lists);
      const std::int64_t to = at.result + part.rows.begin * l.index_stride + part.columns.begin;
      sum_rows({.from_dtype = l.values,
                .to_dtype = l.result,
                .from = static_cast<const char*>(data[0]) + part.columns.begin * dtype_bits(l.values) / 8,
                .to = static_cast<char*>(data[2]) + to * dtype_bits(l.result) / 8,
                .elements = columns,
                .to_stride = l.index_stride,
                .streams = streams,
                .sums = scratch.data(),
                .ends = lists.ends,
                .sources = lists.sources});
    }
  }

  void run(int threads) const {
    constexpr std::int64_t line = 32, min_columns = 4 * line;  // A line of 16-bit elements has 32.
    const std::int64_t columns = inner.extent,
                       elements = columns * (l.index_extent + count_points(listed)) * count_points(batch);
    const std::int64_t useful = std::max<std::int64_t>(elements / min_elements_per_part, 1);
    const bool by_column = columns >= min_columns * threads;
    const int parts = static_cast<int>(
        std::min<std::int64_t>(std::max(threads, 1), by_column ? useful : std::min(useful, l.index_extent)));
    const bool streams = l.result_elements * dtype_bits(l.result) / 8 > pool::cache_sizes().l3;
    pool::run_parallel(parts, [&](int part) {
      ScatterPart mine{{0, columns}, {0, l.index_extent}};
      if (by_column)
        mine.columns = pool::split_evenly(columns, parts, part, line);
      else
        mine.rows = pool::split_evenly(l.index_extent, parts, part);
      run_part(mine, streams && columns >= min_columns);
    });
  }
};

// A scatter of single elements to f32 sums. Threads divide the outer points if each adds to other elements.
struct ElementScatter {
  const GatherScatterLoops& l;
  std::span<void* const> data;
  IndexedAxes axes;
  float* sums;

  template <class From, class Index> void add_elements(std::int64_t begin, std::int64_t end) const {
    const auto* const from = static_cast<const From*>(data[0]);
    const auto* const indices = static_cast<const Index*>(data[1]);
    LoopCursor cursor(axes.outer, begin);
    for (std::int64_t point = begin; point < end; ++point, cursor.advance()) {
      const LoopAxis& at = cursor.offsets();
      float* const to = sums + at.result;
      const From* const values = from + at.values;
      if (axes.is_row()) {
        float* const row = to + indices[at.indices] * l.index_stride;
        for (std::int64_t i = 0; i < axes.inner.extent; ++i)
          row[i * axes.inner.result] += static_cast<float>(to_double(values[i * axes.inner.values]));
        continue;
      }
      for (std::int64_t i = 0; i < axes.inner.extent; ++i)
        to[i * axes.inner.result + indices[at.indices + i * axes.inner.indices] * l.index_stride] +=
            static_cast<float>(to_double(values[i * axes.inner.values]));
    }
  }
  void add(int threads) const {
    const std::int64_t points = count_points(axes.outer);
    const bool is_divided =
        std::all_of(axes.outer.begin(), axes.outer.end(), [](const LoopAxis& axis) { return axis.result != 0; });
    run_in_parts(points, min_elements_per_part / axes.inner.extent, is_divided ? threads : 1,
                 [&](std::int64_t begin, std::int64_t end) {
                   with_stored_type(l.values, [&]<class From>() {
                     with_index_type(l.indices, [&]<class Index>() { add_elements<From, Index>(begin, end); });
                   });
                 });
  }
  void run(int threads) const {
    run_in_parts(l.result_elements, min_elements_per_part, threads,
                 [&](std::int64_t begin, std::int64_t end) { std::fill(sums + begin, sums + end, 0.0f); });
    add(threads);
    if (l.result == DType::f32) return;
    run_in_parts(l.result_elements, min_elements_per_part, threads, [&](std::int64_t begin, std::int64_t end) {
      const RowOffsets all{begin, begin};
      copy_rows({DType::f32, l.result, sums, data[2], end - begin, false, false, {&all, 1}});
    });
  }
};

}  // namespace

void run_scatter(const GatherScatterLoops& l, std::span<void* const> data, int threads) {
  const IndexedAxes axes(l.axes);
  if (axes.is_contiguous_row() && axes.inner.extent >= min_listed_elements)
    return RowScatter(l, data, axes).run(threads);
  ElementScatter{l, data, axes, static_cast<float*>(l.result == DType::f32 ? data[2] : data[3])}.run(threads);
}

void run_loops(const GatherScatterLoops& l, std::span<void* const> data, int threads) {
  l.is_scatter ? run_scatter(l, data, threads) : run_gather(l, data, threads);
}

}  // namespace ridge::ops
