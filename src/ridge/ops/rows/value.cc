// Evaluates row kernels in f64 (reference implementation).
#include "ridge/ops/rows/gradients.h"
#include "ridge/ops/rows/program.h"

namespace ridge::ops {
namespace {

template <class Kernel> std::vector<double> run(const RowProblem& p, const RowValues& row) {
  std::vector<double> y(is_number(p.function) ? 1 : row.x.size());
  typename Kernel::Globals g{};
  g.x = {row.x.data()};
  g.y = {y.data()};
  if constexpr (requires { g.dy; }) g.dy = {row.dy.data()};
  if constexpr (requires { g.weight; }) g.weight = {row.weight.data()};
  if constexpr (requires { g.epsilon; }) {
    g.share = 1 / static_cast<double>(row.x.size());
    g.epsilon = p.epsilon;
  }
  tile::value::run_rows<Kernel>(g, 1, static_cast<tile::Index>(row.x.size()));
  return y;
}

}  // namespace

std::vector<double> in_doubles(const RowProblem& p, const RowValues& row) {
  switch (p.function) {
    case RowFunction::rmsnorm: return run<Rmsnorm<double, double, double>>(p, row);
    case RowFunction::layernorm: return run<Layernorm<double, double, double>>(p, row);
    case RowFunction::log_sum_exp: return run<LogSumExp<double, double>>(p, row);
    case RowFunction::softmax_gradient: return run<SoftmaxGradient<double, double>>(p, row);
    case RowFunction::rmsnorm_gradient: return run<RmsnormGradient<double, double, double>>(p, row);
    case RowFunction::product_across: return run<ProductAcross<double, double>>(p, row);
    case RowFunction::rmsnorm_weight_gradient: return run<RmsnormWeightGradient<double, double>>(p, row);
    case RowFunction::layernorm_weight_gradient: return run<LayernormWeightGradient<double, double>>(p, row);
    case RowFunction::layernorm_gradient: return run<LayernormGradient<double, double, double>>(p, row);
    default: return run<Softmax<double, double>>(p, row);
  }
}

}  // namespace ridge::ops
