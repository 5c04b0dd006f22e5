#include "ridge/ops/loops/cpu.h"

#include <algorithm>

#include "ridge/ops/loops/element.h"

namespace ridge::ops {
void run_loops(const GatherScatterLoops& l, std::span<void* const> data, int threads) {
  if (!l.is_scatter) {
    parallel_for(count_points(l.axes), threads, [&](std::int64_t point) {
      const LoopAxis at = offsets_at(l.axes, point);
      const std::int64_t row = load_index(l.indices, data[1], at.indices);
      store_element(l.result, data[2], at.result, load_element(l.values, data[0], at.values + row * l.index_stride));
    });
    return;
  }
  float* const sums = static_cast<float*>(l.result == DType::f32 ? data[2] : data[3]);
  std::fill_n(sums, l.result_elements, 0.0f);
  for (std::int64_t point = 0; point < count_points(l.axes); ++point) {  // Sequential, because indices may repeat
    const LoopAxis at = offsets_at(l.axes, point);
    const std::int64_t row = load_index(l.indices, data[1], at.indices);
    sums[at.result + row * l.index_stride] += static_cast<float>(load_element(l.values, data[0], at.values));
  }
  if (l.result == DType::f32) return;
  parallel_for(l.result_elements, threads, [&](std::int64_t i) { store_element(l.result, data[2], i, sums[i]); });
}

void run_loops(const RunningSumLoops& l, std::span<void* const> data, int threads) {
  parallel_for(count_points(l.axes), threads, [&](std::int64_t point) {
    LoopAxis at = offsets_at(l.axes, point);
    double sum = 0;
    for (std::int64_t t = 0; t < l.axis.extent; ++t) {
      sum += load_element(l.values, data[0], at.values);
      store_element(l.result, data[1], at.result, sum);
      at.values += l.axis.values;
      at.result += l.axis.result;
    }
  });
}

// Quantization to blocks with a common scale, and products of such blocks.
void run_loops(const QuantizeLoops& l, std::span<void* const> data, int threads) {
  const std::int64_t block = dtype_info(l.result).block, blocks = l.axis.extent / block;
  parallel_for(count_points(l.axes) * blocks, threads, [&](std::int64_t i) {
    const LoopAxis at = offsets_at(l.axes, i / blocks);
    const std::int64_t first = i % blocks * block;
    std::vector<double> values(block);
    for (std::int64_t k = 0; k < block; ++k)
      values[k] = load_element(l.values, data[0], at.values + (first + k) * l.axis.values);
    store_scaled_block(l.result, data[1], (at.result + first) / block, values.data());
  });
}

void run_loops(const ScaledProductLoops& l, std::span<void* const> data, int threads) {
  const std::int64_t terms = count_points(l.summed);
  parallel_for(count_points(l.axes), threads, [&](std::int64_t point) {
    const LoopAxis at = offsets_at(l.axes, point);
    double sum = 0;
    for (std::int64_t term = 0; term < terms; ++term) {
      const LoopAxis along = offsets_at(l.summed, term);
      sum += load_element(l.left, data[0], at.values + along.values) *
             load_element(l.right, data[1], at.indices + along.indices);
    }
    store_element(l.result, data[2], at.result, sum);
  });
}

}  // namespace ridge::ops
