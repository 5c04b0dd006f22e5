// Costs are in FLOPs at the vector peak of one core, two for each instruction, as `cpu_flops` of base/function.h: 80
// take a nanosecond on the core that they were measured on (Zen 4, AVX-512, one thread, data in the L2, 2026-11-29).
// Stores that do not bypass the caches read their lines first, which counts, too. The costs of pools, folds and rotary
// are estimates: they count instructions and were not measured.
#include "ridge/ops/loops/model.h"

#include <algorithm>
#include <cmath>

#include "ridge/ops/loops/direct_convolution.h"
#include "ridge/ops/loops/indexed.h"
#include "ridge/ops/loops/model_terms.h"
#include "ridge/pool/isa.h"

namespace ridge::ops {
namespace {

constexpr double row_cost = 400, indexed_element_cost = 80, added_element_cost = 120;
constexpr double sum_along_cost = 45, sum_across_cost = 15;
constexpr double key_cost = 30, sorted_key_cost = 1300;
constexpr double pool_element_cost = 8, pool_row_cost = 4000;
constexpr double fold_element_cost = 8, fold_row_cost = 4000;
constexpr double rotated_element_cost = 12, rotated_line_cost = 3000, rotary_angle_cost = 40;
constexpr double recurrence_step_cost = 12, transposed_operand_cost = 60;
constexpr double multiply_add_cost = 2.6, padded_element_cost = 18,
                 channel_cost = 12000;  // costs of direct convolutions
constexpr double pixel_multiply_add_cost = 1.36, transposed_element_cost = 16, copied_element_cost = 4,
                 block_cost = 12000;  // costs of direct convolutions by blocks of channels
constexpr double encode_cost = 45, short_block_encode_cost = 200, decode_cost = 25;
constexpr double cached_stores = 2;  // Bytes that move for each byte that is stored without bypassing the caches.

CpuForecast make_loops_forecast(std::string_view kernel, double memory_bytes, double vector_flops) {
  return {.kernel = kernel, .vector_flops = vector_flops, .memory_bytes = memory_bytes, .spread = loops_spread};
}

// Returns the bytes that reads of `elements` elements of a table move: those of the whole table if it stays in a cache.
double table_traffic(const GatherScatterLoops& l, double elements) {
  const double table = bytes_of(l.values, real(l.index_extent) * std::abs(real(l.index_stride)));
  const bool is_cached = table > 0 && table <= real(pool::cache_sizes().l3) / 2;
  const double read = bytes_of(l.values, elements);
  return is_cached ? std::min(table, read) : read;
}

}  // namespace

// Every kernel element is multiplied by full tiles of pixels and full blocks of channels, also where these are not
// stored.
static double channel_blocks_cost(const ConvLoops& l) {
  const ChannelBlocks g(l);
  const double blocks = real(l.batch) * std::ceil(real(l.channels) / real(ChannelBlocks::channels));
  const double tiles = std::ceil(real(g.out_width) / real(g.tile)) * real(l.windows.size() == 2 ? l.windows[0].out : 1);
  const double sums = blocks * real(ChannelBlocks::channels) * tiles * real(g.tile);
  double inputs = real(l.batch) * real(l.channels), outputs = inputs;
  for (const ConvWindow& window : l.windows) {
    inputs *= real(window.in);
    outputs *= real(window.out);
  }
  const double element_cost = l.channels_last ? copied_element_cost : transposed_element_cost;
  return sums * real(g.kernel) * pixel_multiply_add_cost + (inputs + outputs) * element_cost + blocks * block_cost;
}

// Returns by how much longer `threads` threads take for `parts` equal parts of work than if all threads were busy.
static double idle_factor(std::int64_t parts, int threads) {
  const double each = std::ceil(real(parts) / threads);
  return parts > 0 ? each * threads / real(parts) : 1;
}

// Every kernel element is added to whole vectors of sums.
CpuForecast cpu_forecast(const ConvLoops& l, int threads) {
  const PaddedChannel channel(l);
  double kernel = 1, inputs = 1, outputs = 1;
  for (const ConvWindow& window : channel.windows) {
    kernel *= real(window.kernel);
    inputs *= real(window.in);
    outputs *= real(window.out);
  }
  const double images = real(l.batch), pairs = real(l.out_channels) * real(l.channels) / real(l.groups);
  const double padded = real(channel.rows[0]) * real(channel.rows[1]) * real(channel.rows[2]);
  const double per_channel = channel_cost + padded_element_cost * (padded + real(channel.plane_floats()));
  const double cost = uses_channel_blocks(l)
                          ? channel_blocks_cost(l)
                          : images * (pairs * real(channel.plane_floats()) * kernel * multiply_add_cost +
                                      real(l.channels) * per_channel);
  return make_loops_forecast("direct convolution",
                             bytes_of(l.x, images * real(l.channels) * inputs) + bytes_of(l.w, pairs * kernel) +
                                 cached_stores * bytes_of(l.y, images * real(l.out_channels) * outputs),
                             idle_factor(count_convolution_parts(l, threads), threads) * cost);
}

CpuForecast cpu_forecast(const GatherScatterLoops& l, int threads) {
  const IndexedAxes axes(l.axes);
  const double rows = real(count_points(axes.outer)), elements = rows * real(axes.inner.extent);
  const bool moves_rows = axes.is_contiguous_row() && axes.inner.extent > 1;
  const double index_bytes = bytes_of(l.indices, axes.is_row() ? rows : elements);
  if (l.is_scatter) {
    // Elements are added in sequence: one thread has 1/threads of the peak.
    const double cost = moves_rows ? rows * row_cost : elements * added_element_cost * std::max(threads, 1);
    const double sums = l.result == DType::f32 || moves_rows ? 0 : 4 * real(l.result_elements);
    return make_loops_forecast("scatter",
                               index_bytes + bytes_of(l.values, elements) +
                                   cached_stores * (bytes_of(l.result, real(l.result_elements)) + sums),
                               cost);
  }
  const double stores = streams_rows(l, axes) ? 1 : cached_stores;
  return make_loops_forecast("gather", index_bytes + table_traffic(l, elements) + stores * bytes_of(l.result, elements),
                             moves_rows ? rows * row_cost : elements * indexed_element_cost);
}

CpuForecast cpu_forecast(const RunningSumLoops& l, int) {
  const double elements = real(count_points(l.axes)) * real(l.axis.extent);
  const bool is_along = l.axis.values == 1 || l.axis.result == 1;
  return make_loops_forecast("running sum", bytes_of(l.values, elements) + cached_stores * bytes_of(l.result, elements),
                             elements * (is_along ? sum_along_cost : sum_across_cost));
}

// The larger the part of a line that is returned, the more of its keys are sorted.
CpuForecast cpu_forecast(const TopKLoops& l, int) {
  const double lines = real(count_points(l.axes)), n = real(l.axis.extent), k = real(l.count);
  const bool sorts_all = 8 * k > n;
  const double collected = sorts_all ? n : std::min(n, k * (2 + std::log(n / k)));
  return make_loops_forecast("top-k", bytes_of(l.values, lines * n) + cached_stores * bytes_of(l.result, lines * k),
                             lines * (n * key_cost + collected * sorted_key_cost + row_cost));
}

// Each output row combines the rows of its window, and then its elements.
CpuForecast cpu_forecast(const PoolLoops& l, int) {
  double inputs = 1, outputs = 1, rows = 1, taps = 1;
  for (const PoolAxis& axis : l.axes) {
    inputs *= real(axis.in);
    outputs *= real(axis.out);
  }
  for (std::size_t i = 0; i + 1 < l.axes.size(); ++i) {
    rows *= real(l.axes[i].out);
    taps *= real(l.axes[i].kernel);
  }
  const PoolAxis line = l.axes.empty() ? PoolAxis{} : l.axes.back();
  const double along = line.is_pooled() ? outputs * (real(line.kernel) + real(line.stride)) : 0;
  return make_loops_forecast(
      "pool", bytes_of(l.x, inputs) + cached_stores * bytes_of(l.y, outputs),
      (rows * real(line.in) * taps + along + outputs) * pool_element_cost + rows * pool_row_cost);
}

// Each output row adds a row of columns for each tap along it, and then stores its elements in order. Columns that no
// cache holds are stored by the product and read again.
CpuForecast cpu_forecast(const FoldLoops& l, int threads) {
  double columns = 1, outputs = 1;
  for (const FoldAxis& axis : l.axes) {
    columns *= real(axis.positions) * real(axis.taps);
    outputs *= real(axis.out);
  }
  const FoldAxis line = l.axes.empty() ? FoldAxis{} : l.axes.back();
  const double rows = outputs / real(std::max<std::int64_t>(line.out, 1));
  const double column_bytes = bytes_of(l.columns, columns);
  const bool is_cached = column_bytes <= real(pool::cache_sizes().l3) / 2;
  return make_loops_forecast(
      "fold", (is_cached ? 0 : (1 + cached_stores) * column_bytes) + cached_stores * bytes_of(l.y, outputs),
      idle_factor(static_cast<std::int64_t>(rows), threads) *
          ((2 * columns + 2 * outputs) * fold_element_cost + rows * real(line.taps) * fold_row_cost));
}

// Lines along axes without a stride of the positions share cosines and sines.
CpuForecast cpu_forecast(const RotaryLoops& l, int) {
  double lines = real(count_points(l.axes)), positions = 1;
  for (const LoopAxis& axis : l.axes)
    if (axis.indices != 0) positions *= real(axis.extent);
  const double n = real(l.axis.extent);
  return make_loops_forecast(
      "rotary",
      bytes_of(l.values, lines * n) + bytes_of(l.positions, positions) + cached_stores * bytes_of(l.result, lines * n),
      lines * (n * rotated_element_cost + rotated_line_cost) + positions * n * rotary_angle_cost);
}

// Steps run on groups of 128 lines; fewer lines take as long.
CpuForecast cpu_forecast(const RecurrenceLoops& l, int threads, const LoopFunctionFlops& flops_of) {
  constexpr double group = 128;
  double lines = 1, cost = recurrence_step_cost;
  for (std::size_t a = 0; a + 1 < l.extents.size(); ++a) lines *= real(l.extents[a]);
  for (const RecurrenceNode& node : l.nodes)
    if (node.kind == RecurrenceNode::Kind::call) cost += flops_of(node.function) * node.repeat;
  const double steps = real(l.extents.back()), groups = std::ceil(lines / group), least_groups = std::max(threads, 1);
  double bytes = 0;
  for (const RecurrenceOperand& operand : l.operands) {
    double elements = 1;
    for (std::size_t a = 0; a < l.extents.size(); ++a)
      if (operand.strides[a] != 0) elements *= real(l.extents[a]);
    bytes += bytes_of(operand.dtype, elements) * (&operand == &l.operands.back() ? cached_stores : 1);
    if (operand.strides.back() == 1) cost += transposed_operand_cost;
  }
  return make_loops_forecast("recurrence", bytes, std::max(groups, least_groups) * group * steps * cost);
}

CpuForecast cpu_forecast(const QuantizeLoops& l, int) {
  const double elements = real(count_points(l.axes)) * real(l.axis.extent);
  return make_loops_forecast("quantize", bytes_of(l.values, elements) + cached_stores * bytes_of(l.result, elements),
                             elements * (l.result == DType::nvfp4 ? short_block_encode_cost : encode_cost));
}

// The product that follows reads the result again.
CpuForecast cpu_forecast(const DequantizeLoops& l, int) {
  const double elements = real(l.elements);
  return make_loops_forecast("dequantize",
                             bytes_of(l.values, elements) + (cached_stores + 1) * bytes_of(l.result, elements),
                             elements * decode_cost);
}

}  // namespace ridge::ops
