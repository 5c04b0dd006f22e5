#include <algorithm>
#include <numeric>

#include "ridge/ops/loops/cpu.h"
#include "ridge/ops/loops/element.h"

namespace ridge::ops {
namespace {

void store_index(DType dtype, void* data, std::int64_t i, std::int64_t index) {
  if (dtype == DType::int8)
    static_cast<std::int8_t*>(data)[i] = static_cast<std::int8_t>(index);
  else
    static_cast<std::int32_t*>(data)[i] = static_cast<std::int32_t>(index);
}

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

void run_loops(const TopKLoops& l, std::span<void* const> data, int threads) {
  parallel_for(count_points(l.axes), threads, [&](std::int64_t point) {
    const LoopAxis at = offsets_at(l.axes, point);
    std::vector<double> values(l.axis.extent);
    std::vector<std::int64_t> order(values.size());
    std::iota(order.begin(), order.end(), 0);
    for (std::int64_t i = 0; i < l.axis.extent; ++i)
      values[i] = load_element(l.values, data[0], at.values + i * l.axis.values);
    const auto is_before = [&](std::int64_t a, std::int64_t b) {
      const double x = values[a], y = values[b];
      if (x != x || y != y) return y != y && x == x;
      return x > y;
    };
    std::stable_sort(order.begin(), order.end(), is_before);
    for (std::int64_t i = 0; i < l.count; ++i)
      store_index(l.result, data[1], at.result + i * l.result_stride, order[i]);
  });
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
