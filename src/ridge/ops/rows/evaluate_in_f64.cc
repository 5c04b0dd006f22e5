// Evaluates row kernels in f64 (reference implementation).
#include "ridge/ops/rows/gradient_kernels.h"
#include "ridge/ops/rows/program.h"

namespace ridge::ops {
namespace {

template <class Kernel> std::vector<double> run_in_f64(const RowProblem& p, const RowInputs& row) {
  std::vector<double> y(is_row_scalar(p.function) ? 1 : row.x.size());
  typename Kernel::Globals g{};
  g.x = {row.x.data()};
  g.y = {y.data()};
  if constexpr (requires { g.dy; }) g.dy = {row.dy.data()};
  if constexpr (requires { g.weight; }) g.weight = {row.weight.data()};
  if constexpr (requires { g.epsilon; }) {
    g.sum_scale = 1 / static_cast<double>(row.x.size());
    g.epsilon = p.epsilon;
  }
  tile::value::run_rows<Kernel>(g, 1, static_cast<tile::Index>(row.x.size()));
  return y;
}

}  // namespace

std::vector<double> evaluate_in_f64(const RowProblem& p, const RowInputs& row) {
  switch (p.function) {
    case RowFunction::rmsnorm: return run_in_f64<Rmsnorm<double, double, double>>(p, row);
    case RowFunction::layernorm: return run_in_f64<Layernorm<double, double, double>>(p, row);
    case RowFunction::log_sum_exp: return run_in_f64<LogSumExp<double, double>>(p, row);
    case RowFunction::softmax_gradient: return run_in_f64<SoftmaxGradient<double, double>>(p, row);
    case RowFunction::rmsnorm_gradient: return run_in_f64<RmsnormGradient<double, double, double>>(p, row);
    case RowFunction::product_sum_across_rows: return run_in_f64<ProductSumAcrossRows<double, double>>(p, row);
    case RowFunction::rmsnorm_weight_gradient: return run_in_f64<RmsnormWeightGradient<double, double>>(p, row);
    case RowFunction::layernorm_weight_gradient: return run_in_f64<LayernormWeightGradient<double, double>>(p, row);
    case RowFunction::layernorm_gradient: return run_in_f64<LayernormGradient<double, double, double>>(p, row);
    default: return run_in_f64<Softmax<double, double>>(p, row);
  }
}

}  // namespace ridge::ops
