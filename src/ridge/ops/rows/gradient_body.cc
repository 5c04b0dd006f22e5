#include "ridge/ops/rows/body.h"
#include "ridge/ops/rows/gradient_kernels.h"
#include "ridge/tile/cpu/column_reductions.h"

namespace ridge::ops::RIDGE_BODY_ISA {

void run_gradient(const RowRun& run) {
  const RowProblem& p = run.problem;
  with_typed_pointer(p.x.dtype, const_cast<void*>(run.data.x), [&](auto* x) {
    using X = std::decay_t<decltype(*x)>;
    X* const y = static_cast<X*>(run.data.y);
    switch (p.function) {
      case RowFunction::rmsnorm_gradient: return run_weighted_norm<FloatLanes, RmsnormGradient>(run, x, y);
      case RowFunction::layernorm_gradient: return run_weighted_norm<FloatLanes, LayernormGradient>(run, x, y);
      default:
        return tile::cpu::run_rows<FloatLanes, SoftmaxGradient<X, X>>(
            {{x, p.x.row_stride}, {static_cast<const X*>(run.data.dy), p.dy.row_stride}, {y, p.y.row_stride}},
            run.part);
    }
  });
}

namespace {

template <class Kernel, class X> void run_across(const ColumnReductionRun& run, const X* x) {
  typename Kernel::Globals g{};
  g.x = {x, run.x_layout.row_stride};
  if constexpr (requires { g.dy; }) {
    g.dy = {static_cast<const X*>(run.dy), run.problem->dy.row_stride};
    g.sum_scale = 1 / static_cast<float>(run.part.columns);
    g.epsilon = run.problem->epsilon;
  }
  tile::cpu::run_column_reduction<FloatLanes, Kernel>(g, run.part);
}

}  // namespace

void reduce_columns_part(const ColumnReductionRun& run) {
  with_typed_pointer(run.x_layout.dtype, const_cast<void*>(run.x), [&](auto* x) {
    using X = std::decay_t<decltype(*x)>;
    if (run.problem != nullptr) {
      switch (run.problem->function) {
        case RowFunction::rmsnorm_weight_gradient: return run_across<RmsnormWeightGradient<X, float>>(run, x);
        case RowFunction::layernorm_weight_gradient: return run_across<LayernormWeightGradient<X, float>>(run, x);
        default: return run_across<ProductSumAcrossRows<X, float>>(run, x);
      }
    }
    switch (run.function) {
      case ReduceFunction::max: return run_across<ColumnReductionKernel<X, float, tile::MaxOrNan>>(run, x);
      case ReduceFunction::min: return run_across<ColumnReductionKernel<X, float, tile::MinOrNan>>(run, x);
      default: return run_across<ColumnReductionKernel<X, float, tile::Add>>(run, x);
    }
  });
}

}  // namespace ridge::ops::RIDGE_BODY_ISA
