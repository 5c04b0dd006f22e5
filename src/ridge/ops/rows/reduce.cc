// Reductions: contiguous rows and columns use the row kernels (row_kernels.h). Other layouts use a plain loop, which
// takes a block of adjacent kept points through all reduced points in f64.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "ridge/base/cores.h"
#include "ridge/base/float16.h"
#include "ridge/ops/function/vector_math_storage.h"
#include "ridge/ops/rows/cpu.h"
#include "ridge/ops/rows/isa_kernels.h"
#include "ridge/pool/isa.h"
#include "ridge/pool/pool.h"

namespace ridge::ops {
namespace {

constexpr std::int64_t block_points = 32;
constexpr std::int64_t min_row_kernel_elements = 24;          // Shorter rows are faster in the loop.
constexpr std::int64_t min_column_kernel_elements = 1 << 12;  // Elements of all columns; fewer are faster in the loop.
constexpr std::int64_t min_reduced_per_thread = 1 << 14;

std::int64_t count_points(const std::vector<ReduceAxis>& axes) {
  std::int64_t n = 1;
  for (const ReduceAxis& axis : axes) n *= axis.extent;
  return n;
}

struct Offsets {
  std::int64_t x = 0, y = 0;
};

Offsets offsets_of(const std::vector<ReduceAxis>& axes, std::int64_t point) {
  Offsets at;
  for (auto axis = axes.rbegin(); axis != axes.rend(); ++axis) {
    const std::int64_t i = point % axis->extent;
    at.x += i * axis->x_stride;
    at.y += i * axis->y_stride;
    point /= axis->extent;
  }
  return at;
}

double initial_value(ReduceFunction function) {
  if (function == ReduceFunction::max) return -std::numeric_limits<double>::infinity();
  return function == ReduceFunction::min ? std::numeric_limits<double>::infinity() : 0;
}

template <class T> double as_double(T value) {
  if constexpr (std::is_same_v<T, float>)
    return value;
  else
    return to_float(value);
}

// True if the elements of a result are contiguous and enough for a row kernel. Axes must be merged.
bool reduces_contiguous_rows(const ReduceProblem& p) {
  return p.reduced.size() == 1 && p.reduced[0].x_stride == 1 && p.reduced[0].extent >= min_row_kernel_elements;
}
// True if enough results are contiguous and each one's elements have one stride.
bool is_column_reduction(const ReduceProblem& p) {
  return p.reduced.size() == 1 && !p.kept.empty() && p.kept.back().x_stride == 1 &&
         p.kept.back().extent >= block_points &&
         p.kept.back().extent * p.reduced[0].extent >= min_column_kernel_elements;
}

// Reduces kept points begin ... end - 1 with the loop.
template <class T>
void reduce_points(const ReduceProblem& p, const T* x, void* y, std::int64_t begin, std::int64_t end) {
  const std::int64_t reduced = count_points(p.reduced);
  for (std::int64_t first = begin; first < end; first += block_points) {
    const std::int64_t count = std::min(block_points, end - first);
    std::array<Offsets, block_points> at;
    std::array<double, block_points> value;
    for (std::int64_t i = 0; i < count; ++i) {
      at[i] = offsets_of(p.kept, first + i);
      value[i] = initial_value(p.function);
    }
    for (std::int64_t r = 0; r < reduced; ++r) {
      const std::int64_t offset = offsets_of(p.reduced, r).x;
      for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i)
        value[i] = combine_values(p.function, value[i], as_double(x[at[i].x + offset]));
    }
    for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i)
      store_rounded(p.y, y, at[i].y,
                    p.function == ReduceFunction::mean ? value[i] / static_cast<double>(reduced) : value[i]);
  }
}
// Reduces each point with a row kernel, which adds partly in f32; results that overflow are recomputed by the loop.
template <class T> void reduce_contiguous_rows(const ReduceProblem& p, const T* x, void* y, pool::WorkSlice range) {
  const auto reduced = pool::select_for_isa(plain::reduce_row, avx2::reduce_row, avx512::reduce_row);
  for (std::int64_t i = range.begin; i < range.end; ++i) {
    const Offsets at = offsets_of(p.kept, i);
    const auto all = reduced({p.function, p.x, x + at.x, count_points(p.reduced)});
    if (std::isfinite(all))
      store_rounded(p.y, y, at.y, all);
    else
      reduce_points(p, x, y, i, i + 1);
  }
}
// Reduces contiguous points together; a few rows at a time are added in f32.
template <class T>
void reduce_columns(const ReduceProblem& p, const T* x, void* y, pool::WorkSlice outer, int threads) {
  const ReduceAxis columns = p.kept.back(), rows = p.reduced[0];
  const double divisor = p.function == ReduceFunction::mean ? static_cast<double>(rows.extent) : 1;
  for (std::int64_t i = outer.begin; i < outer.end; ++i) {
    const Offsets at = offsets_of(p.kept, i * columns.extent);
    const ColumnReductionRun run{nullptr, p.function, {p.x, rows.x_stride}, x + at.x, nullptr, {}};
    reduce_across_rows(run, rows.extent, columns.extent, threads,
                       [&](std::int64_t begin, std::int64_t end, const double* sums) {
                         for (std::int64_t c = begin; c < end; ++c) {
                           std::int64_t non_finite = c;
                           while (non_finite < end && !std::isfinite(sums[non_finite])) ++non_finite;
                           if (non_finite > c)
                             reduce_points(p, x, y, i * columns.extent + c, i * columns.extent + non_finite);
                           c = non_finite;
                           if (c < end) store_rounded(p.y, y, at.y + c * columns.y_stride, sums[c] / divisor);
                         }
                       });
  }
}

}  // namespace

double combine_values(ReduceFunction function, double so_far, double value) {
  switch (function) {
    case ReduceFunction::max: return value > so_far || std::isnan(value) ? value : so_far;
    case ReduceFunction::min: return value < so_far || std::isnan(value) ? value : so_far;
    default: return so_far + value;
  }
}

std::vector<ReduceAxis> sort_and_merge_axes(std::vector<ReduceAxis> axes) {
  std::erase_if(axes, [](const ReduceAxis& a) { return a.extent == 1; });
  std::stable_sort(axes.begin(), axes.end(),
                   [](const ReduceAxis& a, const ReduceAxis& b) { return a.x_stride > b.x_stride; });
  std::vector<ReduceAxis> out;
  for (const ReduceAxis& a : axes) {
    if (!out.empty() && out.back().x_stride == a.extent * a.x_stride && out.back().y_stride == a.extent * a.y_stride)
      out.back() = {out.back().extent * a.extent, a.x_stride, a.y_stride};
    else
      out.push_back(a);
  }
  return out;
}

Reason unsupported_reason(const ReduceProblem& p) {
  if (auto reason = pool::isa_override_error()) return reason;
  for (const auto& [dtype, which] : {std::pair(p.x, "x"), {p.y, "y"}})
    if (!is_storable(dtype))
      return std::string(which) + " is " + std::string(dtype_name(dtype)) + "; reductions store f32, bf16 and f16";
  double elements = 1;
  for (const auto* axes : {&p.kept, &p.reduced})
    for (const ReduceAxis& axis : *axes) {
      if (axis.extent < 1) return "expected extents of at least 1, found " + std::to_string(axis.extent);
      elements *= static_cast<double>(axis.extent);
    }
  if (elements > 0x1p59) return "the reduction has more than 2^59 elements";
  return {};
}

void reduce(const ReduceProblem& given, const void* x, void* y, int threads) {
  const ReduceProblem p{given.function, given.x, given.y, sort_and_merge_axes(given.kept),
                        sort_and_merge_axes(given.reduced)};
  const std::int64_t kept = count_points(p.kept);
  if (threads <= 0) threads = usable_cores();
  const std::int64_t useful_threads =
      std::max<std::int64_t>(kept * count_points(p.reduced) / min_reduced_per_thread, 1);
  const bool is_by_columns = is_column_reduction(p);
  const std::int64_t points_per_block = reduces_contiguous_rows(p) ? 1 : block_points,
                     points_per_item = is_by_columns ? p.kept.back().extent : points_per_block,
                     items = (kept + points_per_item - 1) / points_per_item;
  const int max_workers = static_cast<int>(std::min<std::int64_t>(threads, useful_threads)),
            workers = static_cast<int>(std::min<std::int64_t>(max_workers, items));
  pool::run_parallel(workers, [&](int worker) {
    const pool::WorkSlice mine = pool::split_evenly(items, workers, worker);
    with_typed_pointer(p.x, const_cast<void*>(x), [&](auto* from) {
      if (is_by_columns)
        reduce_columns(p, from, y, mine, workers == 1 ? max_workers : 1);
      else if (reduces_contiguous_rows(p))
        reduce_contiguous_rows(p, from, y, mine);
      else
        reduce_points(p, from, y, mine.begin * block_points, std::min(kept, mine.end * block_points));
    });
  });
}

}  // namespace ridge::ops
