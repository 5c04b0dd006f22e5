// Predictions for the loops on a device. They follow from what the kernels move and issue; no timings were fitted, and
// their spread is therefore wide.
#include <algorithm>
#include <cmath>

#include "ridge/ops/chain/model.h"
#include "ridge/ops/fitted.h"
#include "ridge/ops/loops/device/limits.h"
#include "ridge/ops/loops/device/source.h"
#include "ridge/ops/loops/indexed.h"
#include "ridge/ops/loops/model.h"
#include "ridge/ops/loops/model_terms.h"
#include "ridge/ops/loops/recurrence.h"

namespace ridge::ops {
namespace {

constexpr double sector_bytes = 32;  // Smallest part of a line that is read from memory
// Instructions of a lane, counted in the kernels' source
constexpr double indexed_item = 30, summed_element = 16, sorted_key_pass = 30, scanned_key = 12, ranked_warp = 60;
constexpr double decoded_element = 8, encoded_element = 20, encoded_by_division = 60;
constexpr double window_element = 8, window_item = 100, rotated_pair = 12, rotary_angle = 80;
constexpr double recurrence_overhead = 6, step_latency_cycles = 5, load_latency_cycles = 900, steps_per_load = 16;
constexpr double key_bytes = 4, position_bytes = 4, line_key_bytes = 8, radix_bits = 8;

Forecast make_forecast(std::string_view kernel, double bytes, double instructions, const DeviceNumbers& device) {
  Forecast out = forecast_streamed(kernel, bytes, instructions, device);
  out.spread = loops_spread;
  return out;
}

// Returns the seconds of a radix sort of `keys` keys with `bits` bits, of `key` bytes with their positions: a
// histogram, its sums, and passes that read and write all.
double sort_seconds(double keys, double bits, double key, const DeviceNumbers& device) {
  const double passes = std::ceil(bits / radix_bits);
  return (2 + passes) * device.launch_s +
         passes * 2 * keys * (key + position_bytes) / std::min(device.l2_bytes_per_s, device.memory_bytes_per_s);
}
// Returns the rows of a scatter's result, over all batches.
double count_scatter_targets(const GatherScatterLoops& l) {
  double targets = real(l.index_extent);
  for (const LoopAxis& axis : l.axes)
    if (axis.indices != 0 && axis.result != 0) targets *= real(axis.extent);
  return targets;
}
double bits_of(double count) { return std::ceil(std::log2(std::max(count, 2.0))); }

}  // namespace

// Scatters follow scatter_buckets.cu: two kernels, in which loads of indices, starts, rows and values wait for each
// other, and whose second sorts a bucket's rows again for each slice of columns. With more targets they sort all rows.
Result<Forecast> forecast(const GatherScatterLoops& l, const DeviceNumbers& device) {
  constexpr double widest_word = 16, slice_bytes = 512;
  // Loads of a scatter's two kernels that wait for each other, from its times on an H200 (2026-11-29)
  constexpr double dependent_loads = 32;
  const IndexedAxes axes(l.axes);
  const double rows = real(count_points(axes.outer)), elements = rows * real(axes.inner.extent);
  const double keys = axes.is_row() ? rows : elements, index_bytes = bytes_of(l.indices, keys);
  const double contiguous = axes.is_contiguous_row() ? real(axes.inner.extent) : 1;  // Elements of a row
  const double row_bytes = bytes_of(l.values, contiguous), item_bytes = std::min(row_bytes, widest_word);
  const double values_bytes = bytes_of(l.values, elements), items = values_bytes / item_bytes;
  if (!l.is_scatter) {
    const double table = bytes_of(l.values, real(l.index_extent) * std::abs(real(l.index_stride)));
    const double read = std::ceil(row_bytes / sector_bytes) * sector_bytes / row_bytes * values_bytes;
    const bool is_cached = table > 0 && table <= real(device.l2_bytes) / 2;
    return make_forecast("gather",
                         index_bytes + (is_cached ? std::min(table, read) : read) + bytes_of(l.result, elements),
                         indexed_item * items, device);
  }
  const double results = real(l.result_elements), result_items = bytes_of(l.values, results) / item_bytes;
  const double bytes = index_bytes + values_bytes + bytes_of(l.result, results), targets = count_scatter_targets(l);
  const double instructions = indexed_item * (items + result_items);
  if (targets <= real(cuda::max_bucketed_targets)) {
    const double sorts = 1 + std::ceil(bytes_of(l.values, elements / keys) / slice_bytes);  // Each counts, then places
    Forecast out = make_forecast("scatter", bytes, instructions + 2 * sorts * keys * sorted_key_pass, device);
    out.seconds += device.launch_s + dependent_loads * load_latency_cycles / device.clock_hz +
                   (1 + 2 * sorts) * keys * key_bytes / device.l2_bytes_per_s;
    return out;
  }
  Forecast out = make_forecast("scatter", bytes, instructions, device);
  out.seconds += 2 * device.launch_s + sort_seconds(keys, bits_of(targets), key_bytes, device);
  return out;
}

// Lines that do not fill the device are read twice, the second time from the L2 if they fit.
Result<Forecast> forecast(const RunningSumLoops& l, const DeviceNumbers& device) {
  const double elements = real(count_points(l.axes)) * real(l.axis.extent);
  return make_forecast("running_sum", bytes_of(l.values, elements) + bytes_of(l.result, elements),
                       summed_element * elements, device);
}

// The methods are those of topk.cu: a warp or a block selects, or all lines are sorted.
Result<Forecast> forecast(const TopKLoops& l, const DeviceNumbers& device) {
  constexpr double warp = 32, max_warp_line = 512, max_selected = 1024, min_ratio = 4, max_block_line = 8192;
  const double lines = real(count_points(l.axes)), n = real(l.axis.extent), k = real(l.count);
  const double bytes = bytes_of(l.values, lines * n) + bytes_of(l.result, lines * k);
  if (n <= max_warp_line && k <= warp)
    return make_forecast("topk_warp", bytes, lines * (n * scanned_key + k * (ranked_warp * warp + 3 * n)), device);
  if (k <= max_selected && min_ratio * k <= n) {
    Forecast out = make_forecast("topk_select", bytes, 3 * lines * n * scanned_key, device);
    if (lines < 2 * device.multiprocessors) out.seconds += device.launch_s;
    return out;
  }
  if (n <= max_block_line) return make_forecast("sort_lines", bytes, 8 * lines * n * sorted_key_pass, device);
  Forecast out = make_forecast("sort", bytes + lines * n * (line_key_bytes + position_bytes), 0, device);
  out.seconds += device.launch_s + sort_seconds(lines * n, warp + bits_of(lines), line_key_bytes, device);
  return out;
}

// Windows that overlap read from the cache. Elements along contiguous channels share the arithmetic of their positions.
Result<Forecast> forecast(const PoolLoops& l, const DeviceNumbers& device) {
  constexpr double pack_bytes = 16;
  double inputs = 1, outputs = 1, taps = 1;
  bool has_columns = false;
  for (const PoolAxis& axis : l.axes) {
    inputs *= real(axis.in);
    outputs *= real(axis.out);
    taps *= real(axis.kernel);
    has_columns |= !axis.is_pooled() && axis.out > 1 && axis.x_stride == 1 && axis.y_stride == 1;
  }
  const double items = has_columns ? bytes_of(l.x, outputs) / pack_bytes : outputs;
  return make_forecast("pool", bytes_of(l.x, inputs) + bytes_of(l.y, outputs),
                       outputs * taps * window_element + items * window_item, device);
}

// Each element of y tests the taps along every axis, and adds a column where one reaches it.
Result<Forecast> forecast(const FoldLoops& l, const DeviceNumbers& device) {
  constexpr double tested_tap = 6, added_column = 8;
  double columns = 1, outputs = 1, tests = 0;
  for (const FoldAxis& axis : l.axes) {
    columns *= real(axis.positions) * real(axis.taps);
    outputs *= real(axis.out);
    if (axis.has_window()) tests += real(axis.taps);
  }
  return make_forecast("fold", bytes_of(l.columns, columns) + bytes_of(l.y, outputs),
                       outputs * (indexed_item + tests * tested_tap) + columns * added_column, device);
}

// A thread computes an angle for up to eight lines of one position.
Result<Forecast> forecast(const RotaryLoops& l, const DeviceNumbers& device) {
  constexpr double max_lines = 8;
  double lines = 1, positions = 1;
  for (const LoopAxis& axis : l.axes) (axis.indices != 0 ? positions : lines) *= real(axis.extent);
  const double pairs = positions * lines * real(l.axis.extent) / 2;
  return make_forecast("rotary",
                       bytes_of(l.values, 2 * pairs) + bytes_of(l.positions, positions) + bytes_of(l.result, 2 * pairs),
                       pairs * (rotated_pair + rotary_angle / std::min(lines, max_lines)), device);
}

// Each line is a chain of dependent steps: it takes the latency of their instructions, or that of the loads, which are
// issued for several steps together.
Result<Forecast> forecast(const RecurrenceLoops& l, const DeviceNumbers& device) {
  const std::vector<void*> no_data(l.operands.size());
  const ScanProblem p = make_scan_problem(l, no_data);
  double bytes = 0, instructions = recurrence_overhead;
  for (const RecurrenceOperand& operand : l.operands) {
    double elements = 1;
    for (std::size_t a = 0; a < l.extents.size(); ++a)
      if (operand.strides[a] != 0) elements *= real(l.extents[a]);
    bytes += bytes_of(operand.dtype, elements);
  }
  for (const ChainStep& step : p.step.steps)
    if (step.op != ChainOp::store && step.op != ChainOp::load) instructions += instructions_per_step(step, false);
  Forecast out = make_forecast("recurrence", bytes, instructions * real(p.lines) * real(p.steps), device);
  const double step_cycles = std::max(instructions * step_latency_cycles, load_latency_cycles / steps_per_load);
  out.seconds = std::max(out.seconds, device.launch_s + real(p.steps) * step_cycles / device.clock_hz);
  return out;
}

Result<Forecast> forecast(const QuantizeLoops& l, const DeviceNumbers& device) {
  const double elements = real(count_points(l.axes)) * real(l.axis.extent);
  const bool divides = l.result == DType::nvfp4 || l.result == DType::e4m3_128;
  return make_forecast("quantize", bytes_of(l.values, elements) + bytes_of(l.result, elements),
                       elements * (divides ? encoded_by_division : encoded_element), device);
}

Result<Forecast> forecast(const DequantizeLoops& l, const DeviceNumbers& device) {
  const double elements = real(l.elements);
  return make_forecast("dequantize", bytes_of(l.values, elements) + bytes_of(l.result, elements),
                       elements * decoded_element, device);
}

// Each kernel element takes a multiply-add, and a load unless it is reused for several rows of the result.
Result<Forecast> forecast(const ConvLoops& l, const DeviceNumbers& device) {
  constexpr double instructions_per_product = 2;
  double inputs = 1, outputs = 1, kernel = 1;
  for (const ConvWindow& window : l.windows) {
    inputs *= real(window.in);
    outputs *= real(window.out);
    kernel *= real(window.kernel);
  }
  const double images = real(l.batch), each = real(l.channels / std::max<std::int64_t>(l.groups, 1));
  const double results = images * real(l.out_channels) * outputs;
  const double instructions = l.channels_last ? count_depthwise_instructions(l, device.multiprocessors)
                                              : results * (each * kernel * instructions_per_product + indexed_item);
  return make_forecast("direct_convolution",
                       bytes_of(l.x, images * real(l.channels) * inputs) +
                           bytes_of(l.w, real(l.out_channels) * each * kernel) + bytes_of(l.y, results),
                       instructions, device);
}

}  // namespace ridge::ops
