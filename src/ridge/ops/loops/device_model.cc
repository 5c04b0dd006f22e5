// Predictions for the loops on a device. They follow from what the kernels move and issue. Most kernels were timed: one
// or two constants each, of data/models/kernels.csv, are fitted to data/timings/loops. The spread of the others is
// wide.
#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "ridge/ops/chain/model.h"
#include "ridge/ops/fitted.h"
#include "ridge/ops/loops/cuda.h"
#include "ridge/ops/loops/device/limits.h"
#include "ridge/ops/loops/device/source.h"
#include "ridge/ops/loops/indexed.h"
#include "ridge/ops/loops/model.h"
#include "ridge/ops/loops/model_terms.h"
#include "ridge/ops/loops/recurrence.h"
#include "ridge/ops/loops/routed.h"
#include "ridge/ops/loops/running_sum_plan.h"

namespace ridge::ops {
namespace {

constexpr double sector_bytes = 32;  // Smallest part of a line that is read from memory
// Instructions of a lane, counted in the kernels' source
constexpr double indexed_item = 30, sorted_key_pass = 30, scanned_key = 12, ranked_warp = 60;
constexpr double decoded_element = 8, encoded_element = 20, encoded_quotient = 26, encoded_by_division = 60;
constexpr double window_element = 8, window_item = 100, rotated_pair = 12, rotary_angle = 80;
constexpr double recurrence_overhead = 6, step_latency_cycles = 5;
constexpr double key_bytes = 4, position_bytes = 4, line_key_bytes = 8, radix_bits = 8;

Forecast make_forecast(std::string_view kernel, double bytes, double instructions, const DeviceNumbers& device) {
  Forecast out = forecast_streamed(kernel, bytes, instructions, device);
  out.spread = loops_spread;
  return out;
}

// The same for a kernel whose timings were fitted. `kind` is a line of data/models/spreads.csv.
Forecast make_fitted(std::string_view kernel, std::string_view kind, double bytes, double instructions,
                     const DeviceNumbers& device) {
  Forecast out = forecast_streamed(kernel, bytes, instructions, device);
  out.spread = spread_on_device(device, kind);
  return out;
}

// Returns the seconds of a radix sort of `keys` keys with `bits` bits, of `key` bytes with their positions: a
// histogram, its sums, and passes that read and write all.
double sort_seconds(double keys, double bits, double key, const DeviceNumbers& device) {
  const double passes = std::ceil(bits / radix_bits);
  return (2 + passes) * (device.launch_s + kernel_constants().sort_launch_wait_cycles / device.clock_hz) +
         passes * 2 * keys * (key + position_bytes) / std::min(device.l2_bytes_per_s, device.memory_bytes_per_s);
}
// Returns the rows of a scatter's result, over all batches.
double count_scatter_targets(const GatherScatterLoops& l) {
  double targets = real(l.index_extent);
  for (const LoopAxis& axis : l.axes)
    if (axis.indices != 0 && axis.result != 0) targets *= real(axis.extent);
  return targets;
}
// Instructions of a running sum in units of a lane's f32 addition. A multiprocessor issues 128 of these in a cycle, but
// only 16 conversions of f64, 64 additions in f64, 32 lanes of a shuffle and 16 loads of 8 bytes of shared memory.
constexpr double converted_f64 = 8, added_f64 = 2, shuffled_f64 = 8, shared_f64 = 8;

// Returns the instructions of running_sum.cu for lines with contiguous elements. Threads add pieces of W elements.
// Tiles are whole, but only existing pieces are stored.
double count_sum_along(const RunningSumLoops& l, const RunningSumPlan& plan) {
  constexpr double warp_steps = 5, warps = running_sum_threads / 32, item = 8, select = 2, access_bytes = 16;
  const double wide = access_bytes / std::max(bytes_of(l.values, 1), bytes_of(l.result, 1)), n = real(l.axis.extent);
  const bool is_wide = std::fmod(n, wide) == 0;
  const double width = is_wide ? wide : 1, pieces = width == 8 ? 2 : 4, lines = real(plan.lines);
  const double tiles = real(plan.splits) * std::ceil(real(plan.split_extent) / (plan.team * width * pieces));
  const double threads = lines * tiles * plan.team;
  const double read = item + width * (converted_f64 + added_f64);
  const double scan = warp_steps * (shuffled_f64 + added_f64 + select) + 2 * shuffled_f64;
  const double exchange = plan.team == 32 ? added_f64 : warps * (shared_f64 + added_f64 + 1);
  const double store = lines * n * (2 * added_f64 + converted_f64);
  return threads * pieces * (read * (plan.splits > 1 ? 2 : 1) + scan + exchange) + store;
}

// The same for other lines. Threads that share a line add their parts before they store; splits are added before that.
double count_sum_across(const RunningSumPlan& plan, double elements) {
  constexpr double access = 8;
  const double visit = access + converted_f64 + added_f64,
               visits = 1 + (plan.team < running_sum_threads) + (plan.splits > 1);
  return elements * (visits * visit + access + converted_f64);
}
double bits_of(double count) { return std::ceil(std::log2(std::max(count, 2.0))); }

}  // namespace

// Scatters follow scatter_buckets.cu: two kernels, in which loads of indices, starts, rows and values wait for each
// other, and whose second sorts a bucket's rows again for each slice of columns. With more targets they sort all rows.
Result<Forecast> forecast(const GatherScatterLoops& l, const DeviceNumbers& device) {
  constexpr double widest_word = 16, slice_bytes = 512;
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
    // Wide rows are limited by their bytes alone: warps that copy their parts have many loads in flight.
    const bool is_wide =
        l.values == l.result && cuda::is_wide_gather(static_cast<std::int64_t>(row_bytes / item_bytes));
    const double item_instructions = is_wide ? 0 : kernel_constants().gather_item_instructions;
    Forecast out = make_fitted("gather", "gather",
                               index_bytes + (is_cached ? std::min(table, read) : read) + bytes_of(l.result, elements),
                               item_instructions * items, device);
    if (!is_wide) out.seconds += kernel_constants().gather_wait_cycles / device.clock_hz;
    return out;
  }
  const double results = real(l.result_elements), result_items = bytes_of(l.values, results) / item_bytes;
  const double bytes = index_bytes + values_bytes + bytes_of(l.result, results), targets = count_scatter_targets(l);
  const double instructions = indexed_item * (items + result_items);
  if (targets <= real(cuda::max_bucketed_targets)) {
    const double sorts = 1 + std::ceil(bytes_of(l.values, elements / keys) / slice_bytes);  // Each counts, then places
    Forecast out = make_fitted("scatter", "scatter", bytes, instructions + 2 * sorts * keys * sorted_key_pass, device);
    const double counted = out.seconds - device.launch_s + (1 + 2 * sorts) * keys * key_bytes / device.l2_bytes_per_s;
    out.seconds = 2 * device.launch_s + kernel_constants().scatter_wait_cycles / device.clock_hz +
                  kernel_constants().scatter_time_factor * counted;
    return out;
  }
  Forecast out = make_forecast("scatter", bytes, instructions, device);
  out.seconds += 2 * device.launch_s + sort_seconds(keys, bits_of(targets), key_bytes, device);
  return out;
}

// Each row reads the weights of its expert: those that the L2 holds take as long as those in memory. Warps read packs
// of 16 bytes, or single elements.
Result<Forecast> forecast(const RoutedProductLoops& l, const DeviceNumbers& device) {
  constexpr double packed_term = 2.5, strided_term = 30;
  if (const Reason why = cuda::unsupported_reason(l)) return input_error(why.text());
  const RoutedAxes axes(l);
  const double terms = real(count_points(axes.summed)), results = real(count_points(l.axes)),
               rows = real(count_points(axes.rows));
  const bool is_packed = axes.are_terms_adjacent(l, 128 / dtype_bits(l.values));
  const double bytes =
      bytes_of(l.weights, terms * results) + bytes_of(l.values, rows * terms) + bytes_of(l.result, results);
  Forecast out =
      make_fitted("routed", "routed", bytes, terms * results * (is_packed ? packed_term : strided_term), device);
  out.seconds = device.launch_s + kernel_constants().routed_time_factor * (out.seconds - device.launch_s);
  return out;
}

// Lines that do not fill the device are read twice, the second time from the L2 if they fit.
Result<Forecast> forecast(const RunningSumLoops& l, const DeviceNumbers& device) {
  const double elements = real(count_points(l.axes)) * real(l.axis.extent);
  const RunningSumPlan plan = plan_running_sum(l, device.multiprocessors);
  const KernelConstants& n = kernel_constants();
  const double instructions = plan.is_along ? n.sum_along_factor * count_sum_along(l, plan)
                                            : n.sum_across_factor * count_sum_across(plan, elements);
  Forecast out = make_fitted("running_sum", "running_sum", bytes_of(l.values, elements) + bytes_of(l.result, elements),
                             instructions, device);
  const double launches = plan.splits > 1 ? 2 : 1;
  out.seconds += (launches - 1) * device.launch_s + launches * n.running_sum_wait_cycles / device.clock_hz;
  return out;
}

namespace {

// Blocks count the keys of long parts by their first bits, and most keys of a line share few counters: additions to
// these wait for each other. Parts whose keys are all collected are sorted instead.
Forecast forecast_selection(double lines, double n, double k, double bytes, const DeviceNumbers& device) {
  constexpr double max_keys = cuda::max_collected_keys, swap = 12;
  const double parts = real(cuda::count_selection_parts(static_cast<std::int64_t>(lines), static_cast<std::int64_t>(n),
                                                        static_cast<std::int64_t>(k), device.multiprocessors));
  const double part = std::ceil(n / parts), merged = parts > 1 ? parts * k : 0, launches = parts > 1 ? 2 : 1;
  const auto count_keys = [&](double blocks, double keys) {
    return keys > max_keys ? std::ceil(blocks / device.multiprocessors) * keys : 0;
  };
  const double sort_bits = bits_of(part), swaps = sort_bits * (sort_bits + 1) / 4 * std::exp2(sort_bits);
  const double instructions = 3 * lines * n * scanned_key + (part > max_keys ? 0 : lines * parts * swaps * swap);
  Forecast out = make_fitted("topk_select", "topk_select", bytes, instructions, device);
  const KernelConstants& c = kernel_constants();
  const double counted = c.select_key_cycles * (count_keys(lines * parts, part) + count_keys(lines, merged));
  out.seconds = std::max(out.seconds, device.launch_s + counted / device.clock_hz) + (launches - 1) * device.launch_s +
                launches * c.select_wait_cycles / device.clock_hz;
  return out;
}

}  // namespace

// The methods are those of topk.cu: a warp or a block selects, or all lines are sorted.
Result<Forecast> forecast(const TopKLoops& l, const DeviceNumbers& device) {
  constexpr double warp = 32, max_warp_line = 512, max_block_line = 8192;
  const double lines = real(count_points(l.axes)), n = real(l.axis.extent), k = real(l.count);
  const double bytes = bytes_of(l.values, lines * n) + bytes_of(l.result, lines * k);
  if (n <= max_warp_line && k <= warp)
    return make_forecast("topk_warp", bytes, lines * (n * scanned_key + k * (ranked_warp * warp + 3 * n)), device);
  if (l.count <= cuda::max_selected && cuda::min_selection_ratio * l.count <= l.axis.extent)
    return forecast_selection(lines, n, k, bytes, device);
  if (n <= max_block_line) {
    Forecast out = make_forecast("sort_lines", bytes, 8 * lines * n * sorted_key_pass, device);
    out.seconds += kernel_constants().sort_line_wait_cycles / device.clock_hz;
    return out;
  }
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

// Loads and rotations wait for each other.
Result<Forecast> forecast(const RotaryLoops& l, const DeviceNumbers& device) {
  constexpr double block_threads = 256, pack_pairs = 8;
  double lines = 1, positions = 1;
  for (const LoopAxis& axis : l.axes) (axis.indices != 0 ? positions : lines) *= real(axis.extent);
  const double pairs = positions * lines * real(l.axis.extent) / 2;
  // A block computes a rotation once for its lines.
  const double block_lines = std::clamp(block_threads * pack_pairs / (real(l.axis.extent) / 2), 1.0, lines);
  const double bytes = bytes_of(l.values, 2 * pairs) + bytes_of(l.positions, positions) + bytes_of(l.result, 2 * pairs);
  Forecast out = make_fitted("rotary", "rotary", bytes, pairs * (rotated_pair + rotary_angle / block_lines), device);
  out.seconds = device.launch_s + kernel_constants().rotary_wait_cycles / device.clock_hz +
                kernel_constants().rotary_time_factor * (out.seconds - device.launch_s);
  return out;
}

namespace {

// Returns the cycles in which a multiprocessor issues a warp's loads and stores of the steps that it loads together. An
// access takes a cycle for each line of memory: one if the warp's lines are adjacent, but no less than its
// instructions.
double count_access_cycles(const ScanProblem& p, std::size_t operands, int steps) {
  constexpr double lanes = 32, min_cycles = 4, word_bytes = 16;
  double out = 0;
  for (std::size_t t = 0; t < p.tensors.size(); ++t) {
    const ScanTensor& tensor = p.tensors[t];
    const bool is_result = t + 1 == p.tensors.size(), is_index = t + 1 >= operands && !is_result;
    if (is_index || (tensor.step_stride == 0 && !is_result)) continue;
    const bool is_contiguous = tensor.step_stride == 1;
    const bool is_adjacent = !tensor.line_strides.empty() && std::abs(tensor.line_strides.back()) <= 1;
    const double accesses = is_contiguous ? std::ceil(bytes_of(tensor.dtype, steps) / word_bytes) : steps;
    out += accesses * (is_adjacent ? min_cycles : lanes);
  }
  return kernel_constants().recurrence_access_cycles * out;
}

}  // namespace

// Each line is a chain of dependent steps. A warp waits for the loads of several steps, which are issued while it
// computes the previous ones; the warps of a multiprocessor issue theirs one after the other.
Result<Forecast> forecast(const RecurrenceLoops& l, const DeviceNumbers& device) {
  const std::vector<void*> no_data(l.operands.size());
  const ScanProblem p = make_scan_problem(l, no_data);
  double bytes = 0, arithmetic = 0;
  for (const RecurrenceOperand& operand : l.operands) {
    double elements = 1;
    for (std::size_t a = 0; a < l.extents.size(); ++a)
      if (operand.strides[a] != 0) elements *= real(l.extents[a]);
    bytes += bytes_of(operand.dtype, elements);
  }
  for (const ChainStep& step : p.step.steps)
    if (step.op != ChainOp::store && step.op != ChainOp::load) arithmetic += instructions_per_step(step, false);
  Forecast out = make_fitted("recurrence", "recurrence", bytes,
                             (arithmetic + recurrence_overhead) * real(p.lines) * real(p.steps), device);
  const int steps = count_steps_per_load(p), threads = count_recurrence_threads(p, device.multiprocessors);
  const double blocks = std::ceil(real(p.lines) / threads),
               warps = std::ceil(blocks / device.multiprocessors) * threads / 32;
  const double access = count_access_cycles(p, l.operands.size(), steps);
  const double cycles = std::max(
      {kernel_constants().recurrence_load_cycles + access, warps * access, steps * arithmetic * step_latency_cycles});
  out.seconds = std::max(out.seconds, device.launch_s + std::ceil(real(p.steps) / steps) * cycles / device.clock_hz);
  return out;
}

Result<Forecast> forecast(const QuantizeLoops& l, const DeviceNumbers& device) {
  const double elements = real(count_points(l.axes)) * real(l.axis.extent);
  double encoded = encoded_element;
  if (l.result == DType::e4m3_128) encoded = encoded_quotient;
  if (l.result == DType::nvfp4 || has_integer_blocks(l.result)) encoded = encoded_by_division;
  return make_forecast("quantize", bytes_of(l.values, elements) + bytes_of(l.result, elements), elements * encoded,
                       device);
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
  const double bytes = bytes_of(l.x, images * real(l.channels) * inputs) +
                       bytes_of(l.w, real(l.out_channels) * each * kernel) + bytes_of(l.y, results);
  const KernelConstants& n = kernel_constants();
  if (l.channels_last)
    return make_fitted("direct_convolution", "depthwise_convolution", bytes,
                       n.depthwise_factor * count_depthwise_instructions(l, device.multiprocessors), device);
  if (const auto work = count_column_work(l, device.multiprocessors))
    return make_fitted(
        "direct_convolution", "direct_convolution", bytes,
        work->products + n.column_load_instructions * work->loads + n.column_row_instructions * work->rows, device);
  return make_forecast("direct_convolution", bytes, results * (each * kernel * instructions_per_product + indexed_item),
                       device);
}

}  // namespace ridge::ops
