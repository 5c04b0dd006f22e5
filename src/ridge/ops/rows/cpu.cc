// Row functions: the thread pool's workers share the rows.
#include "ridge/ops/rows/isa_kernels.h"

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "ridge/base/check.h"
#include "ridge/base/cores.h"
#include "ridge/base/dtype_set.h"
#include "ridge/ops/function/vector_math_storage.h"
#include "ridge/ops/rows/cpu.h"
#include "ridge/ops/rows/program.h"
#include "ridge/pool/isa.h"
#include "ridge/pool/pool.h"

namespace ridge::ops {
namespace {

namespace cpu = tile::cpu;

using tile::Index;

constexpr std::int64_t min_elements_per_thread = 1 << 14;

Reason unsupported_layout_reason(const RowProblem& p, const RowLayout& layout, const char* which) {
  if (!is_storable(layout.dtype))
    return std::string(which) + " is " + std::string(dtype_name(layout.dtype)) +
           "; row functions store f32, bf16 and f16";
  if (std::abs(static_cast<double>(layout.row_stride)) * static_cast<double>(p.rows) + static_cast<double>(p.columns) >
      0x1p59)
    return std::string(which) + " reaches beyond 2^59 elements";
  return {};
}

std::uintptr_t row_address(const RowProblem& p, const void* x, std::int64_t row) {
  return reinterpret_cast<std::uintptr_t>(x) +
         static_cast<std::uintptr_t>(row * p.x.row_stride * (dtype_bits(p.x.dtype) / 8));
}

// Returns this thread's scratch memory, reused between calls. It is aligned to a cache line, and its offset in the page
// differs from x's by half a page: a load waits for an earlier store with the same page offset (4K aliasing). Softmax's
// exponentials took 1.5 times as long with scratch one line before x.
float* thread_scratch(std::int64_t floats, std::uintptr_t x) {
  constexpr std::uintptr_t line = 64, page = 4096;
  thread_local std::vector<float> memory;
  memory.resize(std::max(memory.size(), static_cast<std::size_t>(floats) + (page + line) / sizeof(float)));
  const std::uintptr_t from = (reinterpret_cast<std::uintptr_t>(memory.data()) + line - 1) / line * line;
  const std::uintptr_t gap = (x / line * line + page / 2 - from) % page;
  return reinterpret_cast<float*>(from + gap);
}

void run_worker(const RowRun& run) {
  if (is_gradient(run.problem.function))
    pool::select_for_isa(plain::run_gradient, avx2::run_gradient, avx512::run_gradient)(run);
  else
    pool::select_for_isa(plain::run_rows, avx2::run_rows, avx512::run_rows)(run);
}

std::vector<double> to_doubles(DType dtype, const void* from, std::int64_t begin, std::int64_t count) {
  std::vector<double> out;
  with_typed_pointer(dtype, const_cast<void*>(from), [&](auto* x) {
    for (std::int64_t i = begin; i < begin + count; ++i)
      if constexpr (std::is_same_v<decltype(x), float*>)
        out.push_back(x[i]);
      else
        out.push_back(to_float(x[i]));
  });
  return out;
}

// Evaluates a row of a gradient in f64, for rows that are inaccurate in f32. A null `weight` means ones.
std::vector<double> evaluate_row_in_f64(const RowProblem& p, const RowData& data, Index row) {
  return evaluate_in_f64(p, {to_doubles(p.x.dtype, data.x, row * p.x.row_stride, p.columns),
                             to_doubles(p.dy.dtype, data.dy, row * p.dy.row_stride, p.columns),
                             data.weight != nullptr ? to_doubles(p.weight_dtype, data.weight, 0, p.columns)
                                                    : std::vector<double>(p.columns, 1)});
}
void rerun_row_in_f64(const void* context, Index row) {
  const RowRun& run = *static_cast<const RowRun*>(context);
  const RowProblem& p = run.problem;
  const std::vector<double> y = evaluate_row_in_f64(p, run.data, row);
  for (std::size_t i = 0; i < y.size(); ++i)
    store_rounded(p.y.dtype, run.data.y, row * p.y.row_stride + static_cast<std::int64_t>(i), y[i]);
}

struct AcrossRowsData {
  const RowProblem& problem;
  const RowData& data;
};
void add_row_in_f64(const void* context, Index row, double* sums) {
  const auto& [problem, data] = *static_cast<const AcrossRowsData*>(context);
  for (const double each : evaluate_row_in_f64(problem, data, row)) *sums++ += each;
}
void run_sum_across_rows(const RowProblem& p, const RowData& data, int threads) {
  const AcrossRowsData context{p, data};
  ColumnReductionRun run{&p, ReduceFunction::sum, p.x, data.x, data.dy, {}};
  run.part.recompute_in_f64 = add_row_in_f64;
  run.part.context = &context;
  reduce_across_rows(run, p.rows, p.columns, threads, [&](std::int64_t begin, std::int64_t end, const double* sums) {
    for (std::int64_t c = begin; c < end; ++c) store_rounded(p.y.dtype, data.y, c, sums[c]);
  });
}

}  // namespace

bool is_storable(DType dtype) { return StoredFloats::contains(dtype); }

void store_rounded(DType dtype, void* y, std::int64_t at, double value) {
  const auto rounded = static_cast<float>(value);
  const bool is_stored =
      StoredFloats::dispatch(dtype, [&]<class T>() { static_cast<T*>(y)[at] = round_to<T>(rounded); });
  RIDGE_CHECK(is_stored, dtype_name(dtype));
}

Reason unsupported_reason(const RowProblem& p) {
  if (auto reason = pool::isa_override_error()) return reason;
  if (p.rows < 0 || p.columns < 0)
    return "expected rows and columns of at least 0, found " + std::to_string(p.rows) + " and " +
           std::to_string(p.columns);
  if (auto reason = unsupported_layout_reason(p, p.x, "x")) return reason;
  if (auto reason = unsupported_layout_reason(p, p.y, "y")) return reason;
  if (is_gradient(p.function)) {
    if (auto reason = unsupported_layout_reason(p, p.dy, "dy")) return reason;
    if (p.dy.dtype != p.x.dtype || (p.y.dtype != p.x.dtype && !reduces_across_rows(p.function)))
      return "expected x, dy and y of one format in a gradient, found " + std::string(dtype_name(p.x.dtype)) + ", " +
             std::string(dtype_name(p.dy.dtype)) + " and " + std::string(dtype_name(p.y.dtype));
  }
  const std::int64_t row_elements = is_row_scalar(p.function) ? 1 : p.columns;
  if (p.rows > 1 && std::abs(p.y.row_stride) < row_elements && !reduces_across_rows(p.function))
    return "y's rows overlap: expected a row stride of at least " + std::to_string(row_elements) + ", found " +
           std::to_string(p.y.row_stride);
  if (has_weight(p.function) && !is_storable(p.weight_dtype))
    return "weight is " + std::string(dtype_name(p.weight_dtype)) + "; row functions store f32, bf16 and f16";
  if (is_norm(p.function) && !(p.epsilon >= 0))
    return "expected an epsilon of at least 0, found " + std::to_string(p.epsilon);
  return {};
}

void run_row_function(const RowProblem& p, const RowData& data, int threads) {
  if (p.columns != 0 && reduces_across_rows(p.function)) return run_sum_across_rows(p, data, threads);
  if (p.rows == 0 || p.columns == 0) return;
  const double elements = static_cast<double>(p.rows) * static_cast<double>(p.columns);
  const double bytes = elements * (dtype_bits(p.x.dtype) + dtype_bits(p.y.dtype)) / 8;
  const bool streams = bytes > static_cast<double>(pool::cache_sizes().l3);
  const bool in_l2 = bytes <= static_cast<double>(pool::cache_sizes().l2);
  if (threads <= 0) threads = usable_cores();
  const std::int64_t useful_threads = std::max<std::int64_t>(p.rows * p.columns / min_elements_per_thread, 1);
  const int workers = static_cast<int>(std::min({std::int64_t{threads}, useful_threads, p.rows}));
  pool::run_parallel(workers, [&](int worker) {
    const pool::WorkSlice part = pool::split_evenly(p.rows, workers, worker);
    const std::int64_t floats = cpu::row_scratch_floats(p.columns);
    float* const scratch = thread_scratch(3 * floats, row_address(p, data.x, part.begin));
    const cpu::ThreadRows rows{part.begin, part.end, p.columns, scratch, streams, in_l2, rerun_row_in_f64};
    RowRun run{p, data, rows, scratch + floats, scratch + 2 * floats};
    run.part.context = &run;
    run_worker(run);
  });
}

// The workers share blocks of columns of all matrices.
void run_column_softmax(const ColumnSoftmaxProblem& p, const void* x, void* y, int threads) {
  constexpr std::int64_t block = 64;
  const std::int64_t blocks = (p.columns + block - 1) / block, matrix = p.extent * p.columns;
  if (matrix == 0 || p.matrices == 0) return;
  if (threads <= 0) threads = usable_cores();
  const std::int64_t useful_threads = std::max<std::int64_t>(p.matrices * matrix / min_elements_per_thread, 1);
  const int workers = static_cast<int>(std::min({std::int64_t{threads}, useful_threads, p.matrices * blocks}));
  const std::int64_t matrix_bytes = matrix * (dtype_bits(p.dtype) / 8);
  pool::run_parallel(workers, [&](int worker) {
    const pool::WorkSlice part = pool::split_evenly(p.matrices * blocks, workers, worker);
    for (std::int64_t at = part.begin; at < part.end;) {
      const std::int64_t index = at / blocks, first = at % blocks, count = std::min(blocks - first, part.end - at);
      pool::select_for_isa(plain::run_column_softmax, avx2::run_column_softmax, avx512::run_column_softmax)(
          {p.dtype, static_cast<const std::byte*>(x) + index * matrix_bytes,
           static_cast<std::byte*>(y) + index * matrix_bytes, p.extent, p.columns, first * block,
           std::min((first + count) * block, p.columns)});
      at += count;
    }
  });
}

}  // namespace ridge::ops
