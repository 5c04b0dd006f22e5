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
template <class V> const float* widen_weights(const RowRun& run, std::int64_t n, float* buffer) {
  with_typed_pointer(run.problem.weight_dtype, const_cast<void*>(run.data.weight),
                     [&](auto* from) { widen_array<V>(from, n, buffer); });
  return buffer;
}

template <class V, template <class, class, class> class Norm, class X, class Y>
void run_weighted_norm(const RowRun& run, const X* x, Y* y) {
  const DType dtype = run.problem.weight_dtype;
  const std::int64_t n = run.problem.columns;
  constexpr DType dtype_of_x = std::is_same_v<X, float>  ? DType::f32
                               : std::is_same_v<X, Bf16> ? DType::bf16
                                                         : DType::f16;
  if (run.data.weight == nullptr) return run_norm<V, Norm>(run, x, fill_ones<V, X>(n, run.weight_scratch), y);
  if (dtype == dtype_of_x) return run_norm<V, Norm>(run, x, static_cast<const X*>(run.data.weight), y);
  const auto* const w =
      dtype == DType::f32 ? static_cast<const float*>(run.data.weight) : widen_weights<V>(run, n, run.weight_scratch);
  run_norm<V, Norm>(run, x, w, y);
}

template <class V, class X, class Y> void run_log_sum_exp(const RowRun& run, const X* x, Y* y) {
  const RowProblem& p = run.problem;
  for (std::int64_t row = run.part.begin; row < run.part.end; ++row)
    tile::cpu::run_row_reduction<V, LogSumExp<X, Y>>({{x + row * p.x.row_stride}, {y + row * p.y.row_stride}},
                                                     p.columns);
}

template <class V> void run_rows(const RowRun& run) {
  const RowProblem& p = run.problem;
  with_typed_pointer(p.x.dtype, const_cast<void*>(run.data.x), [&](auto* x) {
    with_typed_pointer(p.y.dtype, run.data.y, [&](auto* y) {
      using X = std::decay_t<decltype(*x)>;
      using Y = std::decay_t<decltype(*y)>;
      switch (p.function) {
        case RowFunction::rmsnorm: return run_weighted_norm<V, Rmsnorm, X, Y>(run, x, y);
        case RowFunction::layernorm: return run_weighted_norm<V, Layernorm, X, Y>(run, x, y);
        case RowFunction::log_sum_exp: return run_log_sum_exp<V, X, Y>(run, x, y);
        default: return tile::cpu::run_rows<V, Softmax<X, Y>>({{x, p.x.row_stride}, {y, p.y.row_stride}}, run.part);
      }
    });
  });
}

template <class V> float reduce_row(const ReduceRun& run) {
  float y = 0;
  with_typed_pointer(run.dtype, const_cast<void*>(run.x), [&](auto* x) {
    using X = std::decay_t<decltype(*x)>;
    const auto reduce_with = [&](auto kind, double sum_scale) {
      tile::cpu::run_row_reduction<V, RowReduction<X, float, decltype(kind)>>({{x}, {&y}, sum_scale}, run.columns);
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
