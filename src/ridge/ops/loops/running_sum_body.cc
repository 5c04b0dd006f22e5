// Running sums in f64: of neighbouring lines, which the compiler vectorises, and along a line, eight elements at a time
// by three shifts and additions. A chunk's sum so far is added last, so that vectors wait for one addition of their
// predecessor only. Compiled once for each instruction set.
#include "ridge/ops/function/vector_math_storage.h"
#include "ridge/ops/loops/float_types.h"
#include "ridge/ops/loops/isa_kernels.h"

namespace ridge::ops {
namespace {

inline void add_and_round(const float* x, std::int64_t n, double* sums, float* y) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) {
    sums[i] += static_cast<double>(x[i]);
    y[i] = static_cast<float>(sums[i]);
  }
}

// Converts several steps at once if their rows are contiguous; conversion of a few elements takes as long as that of a
// vector.
template <class V, class From, class To> void sum_rows_of_lines(const RunningSumRows& run) {
  constexpr std::int64_t steps_ahead = 4, line_elements = 64 / sizeof(From);
  alignas(64) float wide[max_running_sum_lines];
  const bool is_dense = run.from_stride == run.lines && run.to_stride == run.lines;
  const std::int64_t block = is_dense ? std::max<std::int64_t>(max_running_sum_lines / run.lines, 1) : 1;
  const auto* from = static_cast<const From*>(run.from);
  auto* to = static_cast<To*>(run.to);
  for (std::int64_t step = 0; step < run.steps; step += block) {
    const std::int64_t steps = std::min(block, run.steps - step), count = steps * run.lines;
    if (!is_dense && step + steps_ahead < run.steps)
      for (std::int64_t i = 0; i < run.lines; i += line_elements)
        __builtin_prefetch(from + steps_ahead * run.from_stride + i, 0, 3);
    const float* x = wide;
    if constexpr (std::is_same_v<From, float>)
      x = from;
    else
      widen_array<V>(from, count, wide);
    float* y = wide;
    if constexpr (std::is_same_v<To, float>) y = to;
    for (std::int64_t i = 0; i < count; i += run.lines) add_and_round(x + i, run.lines, run.sums, y + i);
    if constexpr (!std::is_same_v<To, float>) round_array<V>(wide, count, to, false);
    from += steps * run.from_stride;
    to += steps * run.to_stride;
  }
}

constexpr int doubles_at_once = 8;
typedef double Doubles __attribute__((vector_size(8 * doubles_at_once)));
typedef float Floats __attribute__((vector_size(4 * doubles_at_once)));

// Returns the sum of a chunk, which begins after elements with the sum `before`. If `stores` is true, stores all sums.
template <bool stores> double sum_chunk_along(const float* x, std::int64_t n, double before, float* y) {
  const Doubles zeros = {};
  Doubles chunk_sum = {};
  std::int64_t i = 0;
  for (; i + doubles_at_once <= n; i += doubles_at_once) {
    Floats loaded;
    std::memcpy(&loaded, x + i, sizeof loaded);
    Doubles sums = __builtin_convertvector(loaded, Doubles);
    sums += __builtin_shufflevector(sums, zeros, 8, 0, 1, 2, 3, 4, 5, 6);
    sums += __builtin_shufflevector(sums, zeros, 8, 8, 0, 1, 2, 3, 4, 5);
    sums += __builtin_shufflevector(sums, zeros, 8, 8, 8, 8, 0, 1, 2, 3);
    if constexpr (stores) {
      const Floats rounded = __builtin_convertvector(before + (chunk_sum + sums), Floats);
      std::memcpy(y + i, &rounded, sizeof rounded);
    }
    chunk_sum += __builtin_shufflevector(sums, sums, 7, 7, 7, 7, 7, 7, 7, 7);
  }
  double sum = chunk_sum[0];
  for (; i < n; ++i) {
    sum += static_cast<double>(x[i]);
    if constexpr (stores) y[i] = static_cast<float>(before + sum);
  }
  return sum;
}

template <class V, class From, class To>
double sum_along_line(const From* from, std::int64_t n, double before, To* to) {
  alignas(64) float wide[running_sum_chunk];
  double total = 0;
  for (std::int64_t i = 0; i < n; i += running_sum_chunk) {
    const std::int64_t count = std::min(running_sum_chunk, n - i);
    const float* x = wide;
    if constexpr (std::is_same_v<From, float>)
      x = from + i;
    else
      widen_array<V>(from + i, count, wide);
    if (to == nullptr) {
      total += sum_chunk_along<false>(x, count, 0, nullptr);
    } else if constexpr (std::is_same_v<To, float>) {
      total += sum_chunk_along<true>(x, count, before + total, to + i);
    } else {
      total += sum_chunk_along<true>(x, count, before + total, wide);
      round_array<V>(wide, count, to + i, false);
    }
  }
  return total;
}

}  // namespace

namespace RIDGE_BODY_ISA {
void run_running_sums(const RunningSumRows& rows) {
  with_float_types(rows.from_dtype, rows.to_dtype,
                   [&](auto from, auto to) { sum_rows_of_lines<FloatLanes, decltype(from), decltype(to)>(rows); });
}
void run_running_sums(const RunningSumLines& run) {
  with_float_types(run.from_dtype, run.to_dtype, [&](auto first, auto stored) {
    using From = decltype(first);
    using To = decltype(stored);
    for (std::size_t i = 0; i < run.lines.size(); ++i) {
      To* const to = run.to == nullptr ? nullptr : static_cast<To*>(run.to) + run.lines[i].to;
      const double total =
          sum_along_line<FloatLanes, From, To>(static_cast<const From*>(run.from) + run.lines[i].from, run.elements,
                                               run.before == nullptr ? 0 : run.before[i], to);
      if (run.totals != nullptr) run.totals[i] = total;
    }
  });
}
}  // namespace RIDGE_BODY_ISA

}  // namespace ridge::ops
