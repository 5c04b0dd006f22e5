#include "ridge/ops/loops/routed.h"

#include <algorithm>

#include "ridge/ops/loops/cpu.h"
#include "ridge/ops/loops/element.h"

namespace ridge::ops {
namespace {

// Returns for each index whether it is one of the first `capacity` of its expert.
std::vector<bool> within_capacity(const RoutedProductLoops& l, const void* indices) {
  std::vector<bool> out(l.index_count, true);
  if (l.capacity == 0) return out;
  std::vector<std::int64_t> taken(l.experts);
  for (std::int64_t i = 0; i < l.index_count; ++i) out[i] = taken[load_index(l.indices, indices, i)]++ < l.capacity;
  return out;
}

std::int64_t strided_offset(std::int64_t point, const std::vector<LoopAxis>& axes,
                            const std::vector<std::int64_t>& strides) {
  std::int64_t out = 0;
  for (std::size_t i = axes.size(); i-- > 0; point /= axes[i].extent) out += point % axes[i].extent * strides[i];
  return out;
}

}  // namespace

RoutedAxes::RoutedAxes(const RoutedProductLoops& l) {
  for (std::size_t i = 0; i < l.axes.size(); ++i) {
    LoopAxis axis = l.axes[i];
    if (axis.extent == 1) continue;
    const bool is_row = axis.values != 0 || axis.indices != 0;
    if (is_row) rows.push_back(axis);
    axis.values = l.weight_strides[i];
    axis.indices = 0;
    (is_row ? row_weights : columns).push_back(axis);
  }
  columns = merge_loop_axes(columns);
  for (std::size_t i = 0; i < l.summed.size(); ++i)
    summed.push_back({l.summed[i].extent, l.summed[i].values, 0, l.summed_weight_strides[i]});
  summed = merge_loop_axes(summed);
}

bool RoutedAxes::are_terms_adjacent(const RoutedProductLoops& l, std::int64_t width) const {
  if (l.values != l.weights || summed.size() != 1 || summed[0].values != 1 || summed[0].result != 1) return false;
  const auto is_aligned = [&](const LoopAxis& axis) { return axis.values % width == 0; };
  return summed[0].extent % width == 0 && l.expert_stride % width == 0 && std::ranges::all_of(rows, is_aligned) &&
         std::ranges::all_of(row_weights, is_aligned) && std::ranges::all_of(columns, is_aligned);
}

void run_loops(const RoutedProductLoops& l, std::span<void* const> data, int threads) {
  const std::vector<bool> is_counted = within_capacity(l, data[2]);
  const std::int64_t terms = count_points(l.summed);
  parallel_for(count_points(l.axes), threads, [&](std::int64_t point) {
    const LoopAxis at = offsets_at(l.axes, point);
    double sum = 0;
    if (is_counted[at.indices]) {
      const std::int64_t expert = load_index(l.indices, data[2], at.indices);
      const std::int64_t weight = expert * l.expert_stride + strided_offset(point, l.axes, l.weight_strides);
      for (std::int64_t term = 0; term < terms; ++term)
        sum += load_element(l.values, data[0], at.values + offsets_at(l.summed, term).values) *
               load_element(l.weights, data[1], weight + strided_offset(term, l.summed, l.summed_weight_strides));
    }
    store_element(l.result, data[3], at.result, sum);
  });
}

}  // namespace ridge::ops
