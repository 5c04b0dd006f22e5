// Running sums in f64. The error of an element is at most n * 2^-53 times the sum of the n magnitudes, before it is
// rounded to the result's dtype. If there are fewer long lines than threads, all threads first sum the chunks of the
// lines. The order of the additions does not depend on the number of threads.
#include <algorithm>
#include <array>
#include <utility>

#include "ridge/base/ceil_div.h"
#include "ridge/ops/loops/cpu.h"
#include "ridge/ops/loops/element.h"
#include "ridge/ops/loops/indexed.h"
#include "ridge/ops/loops/isa_kernels.h"
#include "ridge/ops/loops/strided.h"
#include "ridge/pool/isa.h"

namespace ridge::ops {
namespace {

template <class Run> void run_isa_sums(const Run& run) {
  using Function = void(const Run&);
  Function &slow = plain::run_running_sums, &fast = avx2::run_running_sums, &fastest = avx512::run_running_sums;
  pool::select_for_isa(slow, fast, fastest)(run);
}

struct RunningSumRun {
  const RunningSumLoops& l;
  std::span<void* const> data;
  std::vector<LoopAxis> axes;

  bool is_contiguous() const { return l.axis.values == 1 && l.axis.result == 1; }

  // Runs contiguous lines in batches.
  void run_contiguous_lines(std::int64_t begin, std::int64_t end) const {
    std::array<RowOffsets, 128> lines;
    LoopCursor cursor(axes, begin);
    for (std::int64_t line = begin; line < end;) {
      std::size_t count = 0;
      for (; line < end && count < lines.size(); ++line, ++count, cursor.advance())
        lines[count] = {cursor.offsets().values, cursor.offsets().result};
      run_isa_sums(RunningSumLines{.from_dtype = l.values,
                                   .to_dtype = l.result,
                                   .from = data[0],
                                   .to = data[1],
                                   .elements = l.axis.extent,
                                   .lines = {lines.data(), count}});
    }
  }

  // Runs one chunk of a line, or only sums it; returns its sum.
  double run_chunk(const LoopAxis& at, std::int64_t first, double before, bool stores) const {
    alignas(64) float wide[running_sum_chunk];
    const std::int64_t n = std::min(running_sum_chunk, l.axis.extent - first);
    const StridedElements x{l.values, data[0], at.values + first * l.axis.values, l.axis.values},
        y{l.result, data[1], at.result + first * l.axis.result, l.axis.result};
    double total = 0;
    const auto run = [&](DType from_dtype, const void* from, DType to_dtype, void* to, RowOffsets line) {
      run_isa_sums(RunningSumLines{from_dtype, to_dtype, from, stores ? to : nullptr, n, {&line, 1}, &before, &total});
    };
    if (is_contiguous()) {
      run(l.values, data[0], l.result, data[1], {x.first, y.first});
      return total;
    }
    load_floats(x, n, wide);
    run(DType::f32, wide, DType::f32, wide, {});
    if (stores) store_floats(wide, n, y);
    return total;
  }
  void run_strided_lines(std::int64_t begin, std::int64_t end) const {
    LoopCursor cursor(axes, begin);
    for (std::int64_t line = begin; line < end; ++line, cursor.advance()) {
      double sum = 0;
      for (std::int64_t first = 0; first < l.axis.extent; first += running_sum_chunk)
        sum += run_chunk(cursor.offsets(), first, sum, true);
    }
  }

  // Divides the chunks of each line among the threads.
  void run_few_lines(int threads) const {
    const std::int64_t lines = count_points(axes), chunks = ceil_div(l.axis.extent, running_sum_chunk);
    std::vector<double> before(lines * chunks);
    const auto for_each_chunk = [&](const auto& work) {
      run_in_parts(lines * chunks, 1, threads, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i)
          work(LoopCursor(axes, i / chunks).offsets(), i % chunks * running_sum_chunk, before[i]);
      });
    };
    for_each_chunk([&](const LoopAxis& at, std::int64_t first, double& sum) { sum = run_chunk(at, first, 0, false); });
    for (std::int64_t line = 0; line < lines; ++line) {
      double sum = 0;
      for (std::int64_t c = 0; c < chunks; ++c) sum += std::exchange(before[line * chunks + c], sum);
    }
    for_each_chunk([&](const LoopAxis& at, std::int64_t first, double sum) { run_chunk(at, first, sum, true); });
  }

  void run_along(int threads) const {
    const std::int64_t lines = count_points(axes);
    if (lines < threads && lines * l.axis.extent > 2 * min_elements_per_part) return run_few_lines(threads);
    run_in_parts(lines, min_elements_per_part / l.axis.extent, threads, [&](std::int64_t begin, std::int64_t end) {
      is_contiguous() ? run_contiguous_lines(begin, end) : run_strided_lines(begin, end);
    });
  }

  // Runs adjacent lines together; `wide` is their axis, which `axes` then lacks.
  void run_across(const LoopAxis& wide, int threads) const {
    constexpr std::int64_t narrowest = 32;
    const std::int64_t points = count_points(axes), per_thread = wide.extent * points / std::max(threads, 1);
    const std::int64_t width = std::clamp(per_thread / narrowest * narrowest, narrowest, max_running_sum_lines),
                       blocks = ceil_div(wide.extent, width);
    const auto run_block = [&](const LoopAxis& at, std::int64_t first) {
      double sums[max_running_sum_lines] = {};
      run_isa_sums(RunningSumRows{
          l.values, l.result, static_cast<const char*>(data[0]) + (at.values + first) * dtype_bits(l.values) / 8,
          static_cast<char*>(data[1]) + (at.result + first) * dtype_bits(l.result) / 8,
          std::min(width, wide.extent - first), l.axis.extent, l.axis.values, l.axis.result, sums});
    };
    run_in_parts(points * blocks, min_elements_per_part / l.axis.extent / width, threads,
                 [&](std::int64_t begin, std::int64_t end) {
                   for (std::int64_t i = begin; i < end; ++i)
                     run_block(LoopCursor(axes, i / blocks).offsets(), i % blocks * width);
                 });
  }
};

// Converts e4m3 by a table of its 256 values if the order in memory stays. Returns false otherwise.
bool convert_in_order(const RunningSumLoops& l, std::span<void* const> data, int threads) {
  const std::vector<LoopAxis> axes = merge_loop_axes(l.axes);
  if (l.values != DType::e4m3 || l.axis.extent != 1 || axes.size() != 1 || axes[0].values != 1 || axes[0].result != 1)
    return false;
  constexpr std::int64_t chunk = 1 << 14;
  return StoredFloats::dispatch(l.result, [&]<class To>() {
    std::array<To, 256> values;
    for (int code = 0; code < 256; ++code) values[code] = round_to<To>(to_float(E4m3{static_cast<std::uint8_t>(code)}));
    const auto* const from = static_cast<const std::uint8_t*>(data[0]);
    auto* const to = static_cast<To*>(data[1]);
    parallel_for(ceil_div(axes[0].extent, chunk), threads, [&](std::int64_t i) {
      const std::int64_t end = std::min(axes[0].extent, (i + 1) * chunk);
      for (std::int64_t at = i * chunk; at < end; ++at) to[at] = values[from[at]];
    });
  });
}

// Runs integers and 8-bit floats, which only conversions of whole tensors have (plan.cc).
void run_single_elements(const RunningSumLoops& l, std::span<void* const> data, int threads) {
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

}  // namespace

void run_loops(const RunningSumLoops& l, std::span<void* const> data, int threads) {
  constexpr std::int64_t min_adjacent_lines = 8;
  if (convert_in_order(l, data, threads)) return;
  if (!StoredFloats::contains(l.values)) return run_single_elements(l, data, threads);
  RunningSumRun run{l, data, merge_loop_axes(l.axes)};
  const auto are_adjacent = [&](const LoopAxis& axis) {
    return axis.values == 1 && axis.result == 1 && axis.extent >= min_adjacent_lines;
  };
  const auto wide = std::find_if(run.axes.begin(), run.axes.end(), are_adjacent);
  if (wide == run.axes.end()) return run.run_along(threads);
  const LoopAxis adjacent_lines = *wide;
  run.axes.erase(wide);
  run.run_across(adjacent_lines, threads);
}

}  // namespace ridge::ops
