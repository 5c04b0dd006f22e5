// Runs one worker's rows of a RowProblem with vectors V. Included by one file for each instruction set.
#pragma once

#include "ridge/ops/rows/isa_kernels.h"
#include "ridge/ops/rows/row_kernels.h"

namespace ridge::ops {
namespace {

template <class Kernel, class X, class W, class Y>
auto make_norm_globals(const RowRun& run, const X* x, const W* weight, Y* y) {
  const RowProblem& p = run.problem;
  typename Kernel::Globals g{};
  g.x = {x, p.x.row_stride};
  g.weight = {weight};
  g.y = {y, p.y.row_stride};
  g.sum_scale = 1 / static_cast<float>(p.columns);
  g.epsilon = p.epsilon;
  if constexpr (requires { g.dy; }) g.dy = {static_cast<const X*>(run.data.dy), p.dy.row_stride};
  return g;
}
template <class V, template <class, class, class> class Norm, class X, class W, class Y>
void run_norm(const RowRun& run, const X* x, const W* weight, Y* y) {
  using Kernel = Norm<X, W, Y>;
  tile::cpu::run_rows<V, Kernel>(make_norm_globals<Kernel>(run, x, weight, y), run.part);
}

// Row kernels take weights as floats or in x's format. A missing weight becomes ones; other formats are widened.
template <class V, class X> const X* fill_ones(std::int64_t n, float* buffer) {
  X one[V::lanes];
  broadcast<V>(1).store(one);
  X* const to = reinterpret_cast<X*>(buffer);
  for (std::int64_t i = 0; i < n; ++i) to[i] = one[0];
  return to;
}
// Returns the weights as floats, in `run.weight_scratch` if they are stored otherwise.
template <class V> const float* to_f32_weights(const RowRun& run) {
  const std::int64_t n = run.problem.columns;
  if (run.data.weight == nullptr) return fill_ones<V, float>(n, run.weight_scratch);
  if (run.problem.weight_dtype == DType::f32) return static_cast<const float*>(run.data.weight);
  with_typed_pointer(run.problem.weight_dtype, const_cast<void*>(run.data.weight),
                     [&](auto* from) { widen_array<V>(from, n, run.weight_scratch); });
  return run.weight_scratch;
}

template <class X> constexpr DType dtype_of = std::is_same_v<X, float>  ? DType::f32
                                              : std::is_same_v<X, Bf16> ? DType::bf16
                                                                        : DType::f16;

template <class V, template <class, class, class> class Norm, class X, class Y>
void run_weighted_norm(const RowRun& run, const X* x, Y* y) {
  if constexpr (!std::is_same_v<X, float>) {
    if (run.data.weight == nullptr)
      return run_norm<V, Norm>(run, x, fill_ones<V, X>(run.problem.columns, run.weight_scratch), y);
    if (run.problem.weight_dtype == dtype_of<X>)
      return run_norm<V, Norm>(run, x, static_cast<const X*>(run.data.weight), y);
  }
  run_norm<V, Norm>(run, x, to_f32_weights<V>(run), y);
}

template <class V, class X> void run_log_sum_exp(const RowRun& run, const X* x) {
  const RowProblem& p = run.problem;
  for (std::int64_t row = run.part.begin; row < run.part.end; ++row) {
    float y = 0;
    tile::cpu::run_row_reduction<V, LogSumExp<X, float>>({{x + row * p.x.row_stride}, {&y}}, p.columns);
    store_rounded(p.y.dtype, run.data.y, row * p.y.row_stride, static_cast<double>(y));
  }
}

// Says whether a pair of formats has kernels of its own. With vector instructions these are the pairs that models use,
// because conversion in a loop of its own takes up to a third of the time. Each kernel takes about a second to compile.
template <class V, class X, class Y>
constexpr bool has_own_kernels = V::has_even_odd
                                     ? std::is_same_v<X, Y> || (!std::is_same_v<X, F16> && !std::is_same_v<Y, F16>)
                                     : std::is_same_v<X, float>&& std::is_same_v<Y, float>;

template <class V, class X, class Y> void run_own_kernel(const RowRun& run, const X* x, Y* y) {
  const RowProblem& p = run.problem;
  switch (p.function) {
    case RowFunction::rmsnorm: return run_weighted_norm<V, Rmsnorm>(run, x, y);
    case RowFunction::layernorm: return run_weighted_norm<V, Layernorm>(run, x, y);
    default: return tile::cpu::run_rows<V, Softmax<X, Y>>({{x, p.x.row_stride}, {y, p.y.row_stride}}, run.part);
  }
}

// Runs other pairs of formats in f32, a batch of rows that fits in the L1 at a time: x is widened to `run.f32_rows`,
// and results are computed there in place and rounded to y.
template <class V, class X, class Y> void run_in_f32(const RowRun& run, const X* x, Y* y) {
  const RowProblem& p = run.problem;
  const std::int64_t n = p.columns;
  const std::int64_t batch = std::max<std::int64_t>(tile::cpu::rows_per_batch(n), 1);
  RowData data = run.data;
  if (has_weight(p.function)) data.weight = to_f32_weights<V>(run);
  for (std::int64_t begin = run.part.begin; begin < run.part.end; begin += batch) {
    const std::int64_t rows = std::min(batch, run.part.end - begin);
    const X* const from = x + begin * p.x.row_stride;
    Y* const to = y + begin * p.y.row_stride;
    RowProblem in_f32 = p;
    in_f32.x.dtype = in_f32.y.dtype = in_f32.weight_dtype = DType::f32;
    RowRun batch_run{in_f32, data, run.part, run.weight_scratch, run.f32_rows};
    batch_run.part.begin = 0;
    batch_run.part.end = rows;
    const float* x_f32 = run.f32_rows;
    if constexpr (std::is_same_v<X, float>) {
      x_f32 = from;
    } else {
      in_f32.x.row_stride = n;
      for (std::int64_t r = 0; r < rows; ++r) widen_array<V>(from + r * p.x.row_stride, n, run.f32_rows + r * n);
    }
    if constexpr (std::is_same_v<Y, float>) {
      run_own_kernel<V>(batch_run, x_f32, to);
    } else {
      in_f32.y.row_stride = n;
      batch_run.part.non_temporal = false;
      batch_run.part.in_l2 = true;
      run_own_kernel<V>(batch_run, x_f32, run.f32_rows);
      for (std::int64_t r = 0; r < rows; ++r)
        round_array<V>(run.f32_rows + r * n, n, to + r * p.y.row_stride, run.part.non_temporal);
    }
  }
  if (run.part.non_temporal) V::store_fence();
}

template <class V> void run_rows(const RowRun& run) {
  const RowProblem& p = run.problem;
  with_typed_pointer(p.x.dtype, const_cast<void*>(run.data.x), [&](auto* x) {
    if (p.function == RowFunction::log_sum_exp) return run_log_sum_exp<V>(run, x);
    using X = std::decay_t<decltype(*x)>;
    with_typed_pointer(p.y.dtype, run.data.y, [&](auto* y) {
      if constexpr (has_own_kernels<V, X, std::decay_t<decltype(*y)>>)
        run_own_kernel<V>(run, x, y);
      else
        run_in_f32<V>(run, x, y);
    });
  });
}

template <class V> float reduce_row(const ReduceRun& run) {
  float y = 0;
  with_typed_pointer(run.dtype, const_cast<void*>(run.x), [&](auto* x) {
    using X = std::decay_t<decltype(*x)>;
    const auto reduce_with = [&](auto kind, double sum_scale) {
      tile::cpu::run_row_reduction<V, RowReductionKernel<X, float, decltype(kind)>>({{x}, {&y}, sum_scale},
                                                                                    run.columns);
    };
    switch (run.function) {
      case ReduceFunction::sum: return reduce_with(tile::Add{}, 1);
      case ReduceFunction::mean: return reduce_with(tile::Add{}, 1 / static_cast<double>(run.columns));
      case ReduceFunction::max: return reduce_with(tile::MaxOrNan{}, 1);
      case ReduceFunction::min: return reduce_with(tile::MinOrNan{}, 1);
    }
  });
  return y;
}

}  // namespace
}  // namespace ridge::ops
