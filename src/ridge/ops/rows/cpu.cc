// Row functions: the thread pool's workers share the rows.
#include "ridge/ops/rows/part.h"

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "ridge/base/cores.h"
#include "ridge/ops/function/vector_math_storage.h"
#include "ridge/ops/rows/cpu.h"
#include "ridge/ops/rows/program.h"
#include "ridge/pool/isa.h"
#include "ridge/pool/pool.h"

namespace ridge::ops {
namespace {

namespace cpu = tile::cpu;

using tile::Index;

constexpr std::int64_t elements_worth_a_thread = 1 << 14;

std::optional<std::string> layout_fault(const RowProblem& p, const RowLayout& layout, const char* which) {
  if (!storable(layout.dtype))
    return std::string(which) + " is " + std::string(name(layout.dtype)) + "; row functions store f32, bf16 and f16";
  if (std::abs(static_cast<double>(layout.row_stride)) * static_cast<double>(p.rows) + static_cast<double>(p.columns) >
      0x1p59)
    return std::string(which) + " reaches beyond 2^59 elements";
  return std::nullopt;
}

std::uintptr_t place_of(const RowProblem& p, const void* x, std::int64_t row) {
  return reinterpret_cast<std::uintptr_t>(x) +
         static_cast<std::uintptr_t>(row * p.x.row_stride * (bits(p.x.dtype) / 8));
}

// Returns this thread's scratch memory, reused between calls. It is aligned to a cache line, and its offset in the page
// differs from x's by half a page: a load waits for an earlier store with the same page offset (4K aliasing). Softmax's
// exponentials took 1.5 times as long with scratch one line before x.
float* scratch_for(std::int64_t floats, std::uintptr_t x) {
  constexpr std::uintptr_t line = 64, page = 4096;
  thread_local std::vector<float> memory;
  memory.resize(std::max(memory.size(), static_cast<std::size_t>(floats) + (page + line) / sizeof(float)));
  const std::uintptr_t from = (reinterpret_cast<std::uintptr_t>(memory.data()) + line - 1) / line * line;
  const std::uintptr_t gap = (x / line * line + page / 2 - from) % page;
  return reinterpret_cast<float*>(from + gap);
}

void run_part(const RowRun& run) {
  if (is_gradient(run.problem.function))
    cpu::body_for_isa(plain::run_gradient, avx2::run_gradient, avx512::run_gradient)(run);
  else
    cpu::body_for_isa(plain::run_rows, avx2::run_rows, avx512::run_rows)(run);
}

std::vector<double> widened(DType dtype, const void* from, std::int64_t begin, std::int64_t count) {
  std::vector<double> out;
  with_type(dtype, const_cast<void*>(from), [&](auto* x) {
    for (std::int64_t i = begin; i < begin + count; ++i)
      if constexpr (std::is_same_v<decltype(x), float*>)
        out.push_back(x[i]);
      else
        out.push_back(to_float(x[i]));
  });
  return out;
}

// Evaluates a row of a gradient in f64, for rows that f32 cannot represent. A null `weight` means ones.
std::vector<double> row_in_doubles(const RowProblem& p, const RowData& data, Index row) {
  return in_doubles(p, {widened(p.x.dtype, data.x, row * p.x.row_stride, p.columns),
                        widened(p.dy.dtype, data.dy, row * p.dy.row_stride, p.columns),
                        data.weight != nullptr ? widened(p.weight, data.weight, 0, p.columns)
                                               : std::vector<double>(static_cast<std::size_t>(p.columns), 1)});
}
void run_in_doubles(const void* of, Index row) {
  const RowRun& run = *static_cast<const RowRun*>(of);
  const RowProblem& p = run.problem;
  const std::vector<double> y = row_in_doubles(p, run.data, row);
  for (std::size_t i = 0; i < y.size(); ++i)
    put(p.y.dtype, run.data.y, row * p.y.row_stride + static_cast<std::int64_t>(i), y[i]);
}

struct AcrossData {
  const RowProblem& problem;
  const RowData& data;
};
void add_in_doubles(const void* of, Index row, double* sums) {
  const auto& [problem, data] = *static_cast<const AcrossData*>(of);
  for (const double each : row_in_doubles(problem, data, row)) *sums++ += each;
}
void run_across(const RowProblem& p, const RowData& data, int threads) {
  const AcrossData of{p, data};
  AcrossRun run{&p, ReduceFunction::sum, p.x, data.x, data.dy, {}};
  run.part.in_doubles = add_in_doubles;
  run.part.of = &of;
  across(run, p.rows, p.columns, threads, [&](std::int64_t begin, std::int64_t end, const double* sums) {
    for (std::int64_t c = begin; c < end; ++c) put(p.y.dtype, data.y, c, sums[c]);
  });
}

}  // namespace

bool storable(DType dtype) { return dtype == DType::f32 || dtype == DType::bf16 || dtype == DType::f16; }

void put(DType dtype, void* y, std::int64_t at, double value) {
  const auto rounded = static_cast<float>(value);
  if (dtype == DType::f32)
    static_cast<float*>(y)[at] = rounded;
  else if (dtype == DType::bf16)
    static_cast<Bf16*>(y)[at] = to_bf16(rounded);
  else
    static_cast<F16*>(y)[at] = to_f16(rounded);
}

std::optional<std::string> refuse(const RowProblem& p) {
  if (auto refusal = cpu::isa_refusal()) return refusal;
  if (p.rows < 0 || p.columns < 0)
    return "expected rows and columns of at least 0, found " + std::to_string(p.rows) + " and " +
           std::to_string(p.columns);
  if (auto fault = layout_fault(p, p.x, "x")) return fault;
  if (auto fault = layout_fault(p, p.y, "y")) return fault;
  if (is_gradient(p.function)) {
    if (auto fault = layout_fault(p, p.dy, "dy")) return fault;
    if (p.dy.dtype != p.x.dtype || (p.y.dtype != p.x.dtype && !is_across(p.function)))
      return "expected x, dy and y of one format in a gradient, found " + std::string(name(p.x.dtype)) + ", " +
             std::string(name(p.dy.dtype)) + " and " + std::string(name(p.y.dtype));
  }
  const std::int64_t wide = is_number(p.function) ? 1 : p.columns;
  if (p.rows > 1 && std::abs(p.y.row_stride) < wide && !is_across(p.function))
    return "y's rows overlap: expected a row stride of at least " + std::to_string(wide) + ", found " +
           std::to_string(p.y.row_stride);
  if (is_weighted(p.function) && !storable(p.weight))
    return "weight is " + std::string(name(p.weight)) + "; row functions store f32, bf16 and f16";
  if (is_norm(p.function) && !(p.epsilon >= 0))
    return "expected an epsilon of at least 0, found " + std::to_string(p.epsilon);
  return std::nullopt;
}

void rows(const RowProblem& p, const RowData& data, int threads) {
  if (p.columns != 0 && is_across(p.function)) return run_across(p, data, threads);
  if (p.rows == 0 || p.columns == 0) return;
  const double elements = static_cast<double>(p.rows) * static_cast<double>(p.columns);
  const double bytes = elements * (bits(p.x.dtype) + bits(p.y.dtype)) / 8;
  const bool stream = bytes > static_cast<double>(cpu::caches().l3);
  const bool in_l2 = bytes <= static_cast<double>(cpu::caches().l2);
  if (threads <= 0) threads = usable_cores();
  const std::int64_t worth = std::max<std::int64_t>(p.rows * p.columns / elements_worth_a_thread, 1);
  const int workers = static_cast<int>(std::min({std::int64_t{threads}, worth, p.rows}));
  cpu::run(workers, [&](int worker) {
    const cpu::Slice part = cpu::slice(p.rows, workers, worker);
    const std::int64_t floats = cpu::row_scratch(p.columns);
    float* const scratch = scratch_for(2 * floats, place_of(p, data.x, part.begin));
    RowRun run{p, data, {part.begin, part.end, p.columns, scratch, stream, in_l2, run_in_doubles}, scratch + floats};
    run.part.of = &run;
    run_part(run);
  });
}

}  // namespace ridge::ops
