#include "ridge/ops/rows/body.h"
#include "ridge/ops/rows/gradients.h"

namespace ridge::ops::RIDGE_BODY_ISA {

void run_gradient(const RowRun& run) {
  const RowProblem& p = run.problem;
  with_type(p.x.dtype, const_cast<void*>(run.data.x), [&](auto* x) {
    using X = std::decay_t<decltype(*x)>;
    X* const y = static_cast<X*>(run.data.y);
    switch (p.function) {
      case RowFunction::rmsnorm_gradient: return run_weighted<FloatLanes, RmsnormGradient, X, X>(run, x, y);
      case RowFunction::layernorm_gradient: return run_weighted<FloatLanes, LayernormGradient, X, X>(run, x, y);
      default:
        return tile::cpu::run_rows<FloatLanes, SoftmaxGradient<X, X>>(
            {{x, p.x.row_stride}, {static_cast<const X*>(run.data.dy), p.dy.row_stride}, {y, p.y.row_stride}},
            run.part);
    }
  });
}

}  // namespace ridge::ops::RIDGE_BODY_ISA
