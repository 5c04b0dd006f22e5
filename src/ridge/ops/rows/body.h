// One worker's rows of a RowProblem by its text, for vectors V. Included by one file for each instruction set.
#pragma once

#include "ridge/ops/rows/part.h"
#include "ridge/ops/rows/texts.h"

namespace ridge::ops {
namespace {

template <class V, template <class, class, class> class Norm, class X, class W, class Y>
void run_norm(const RowRun& run, const X* x, const W* weight, Y* y) {
  const RowProblem& p = run.problem;
  tile::cpu::run_rows<V, Norm<X, W, Y>>(
      {{x, p.x.row_stride}, {weight}, {y, p.y.row_stride}, 1 / static_cast<float>(p.columns), p.epsilon}, run.part);
}

// A row of weights as floats, or of ones in x's format: what the kernel multiplies with is one of the two.
template <class V, class X> const X* ones(std::int64_t n, float* room) {
  X one[V::lanes];
  lit<V>(1).store(one);
  X* const to = reinterpret_cast<X*>(room);
  for (std::int64_t i = 0; i < n; ++i) to[i] = one[0];
  return to;
}
template <class V> const float* widened(const RowRun& run, std::int64_t n, float* room) {
  with_type(run.problem.weight, const_cast<void*>(run.weight), [&](auto* from) { widen_run<V>(from, n, room); });
  return room;
}

template <class V, template <class, class, class> class Norm, class X, class Y>
void run_weighted(const RowRun& run, const X* x, Y* y) {
  const DType dtype = run.problem.weight;
  const std::int64_t n = run.problem.columns;
  constexpr DType dtype_of_x = std::is_same_v<X, float>  ? DType::f32
                               : std::is_same_v<X, Bf16> ? DType::bf16
                                                         : DType::f16;
  if (run.weight == nullptr) return run_norm<V, Norm>(run, x, ones<V, X>(n, run.weights), y);
  if (dtype == dtype_of_x) return run_norm<V, Norm>(run, x, static_cast<const X*>(run.weight), y);
  const auto* const w = dtype == DType::f32 ? static_cast<const float*>(run.weight) : widened<V>(run, n, run.weights);
  run_norm<V, Norm>(run, x, w, y);
}

template <class V> void run_rows(const RowRun& run) {
  const RowProblem& p = run.problem;
  with_type(p.x.dtype, const_cast<void*>(run.x), [&](auto* x) {
    with_type(p.y.dtype, run.y, [&](auto* y) {
      using X = std::decay_t<decltype(*x)>;
      using Y = std::decay_t<decltype(*y)>;
      switch (p.function) {
        case RowFunction::softmax:
          return tile::cpu::run_rows<V, Softmax<X, Y>>({{x, p.x.row_stride}, {y, p.y.row_stride}}, run.part);
        case RowFunction::rmsnorm: return run_weighted<V, Rmsnorm, X, Y>(run, x, y);
        case RowFunction::layernorm: return run_weighted<V, Layernorm, X, Y>(run, x, y);
      }
    });
  });
}

}  // namespace
}  // namespace ridge::ops
