#include "ridge/ops/rows/model.h"

#include <algorithm>

#include "ridge/ops/chain/model.h"
#include "ridge/ops/fitted.h"

namespace ridge::ops {
namespace {

std::vector<std::int64_t> extents_of(const RowProgram& rows) {
  std::vector<std::int64_t> extents = rows.rows;
  extents.push_back(rows.columns);
  return extents;
}

double elements_of(const RowProblem& rows) {
  return static_cast<double>(rows.rows) * static_cast<double>(rows.columns);
}

double points(const std::vector<ReduceAxis>& axes) {
  double n = 1;
  for (const ReduceAxis& axis : axes) n *= static_cast<double>(axis.extent);
  return n;
}

// Instructions per element: softmax takes a maximum, a difference, an exponential, a sum and a product; rmsnorm two
// products and a multiply-add; layernorm also a sum and two differences.
double each_of(RowFunction function) {
  switch (function) {
    case RowFunction::softmax: return 4 + cost_of("exp").first;
    case RowFunction::log_sum_exp: return 3 + cost_of("exp").first;
    case RowFunction::rmsnorm:
    case RowFunction::softmax_gradient: return 3;
    case RowFunction::layernorm: return 6;
    case RowFunction::rmsnorm_gradient: return 7;
    case RowFunction::layernorm_gradient: return 12;
    case RowFunction::product_across: return 1;
    case RowFunction::rmsnorm_weight_gradient: return 3;
    case RowFunction::layernorm_weight_gradient: return 9;
  }
  return 0;
}
double each_of(const RowStep& step, bool rough) {
  if (step.kind == RowStep::Kind::along || step.kind == RowStep::Kind::across) return 1;
  return step.kind == RowStep::Kind::whole ? each_of(step.whole) : instructions(step.step, rough);
}

}  // namespace

double traffic(const RowProgram& rows) { return bytes_of(rows.tensors, extents_of(rows)); }
double traffic(const RowProblem& p) {
  double y = elements_of(p) * bits(p.y.dtype);
  if (is_number(p.function)) y /= static_cast<double>(p.columns);
  if (is_across(p.function)) y = static_cast<double>(p.columns) * bits(p.y.dtype);
  return (elements_of(p) * (bits(p.x.dtype) + (is_gradient(p.function) ? bits(p.dy.dtype) : 0)) + y) / 8;
}
double traffic(const ReduceProblem& p) { return points(p.kept) * (points(p.reduced) * bits(p.x) + bits(p.y)) / 8; }

double instructions(const RowProgram& rows) {
  const bool rough = std::all_of(rows.steps.begin(), rows.steps.end(), [&](const RowStep& step) {
    return step.kind != RowStep::Kind::element || is_rough(rows.tensors, step.step);
  });
  double each = 0;
  for (const RowStep& step : rows.steps) each += each_of(step, rough);
  return elements_of(extents_of(rows)) * each;
}
double instructions(const RowProblem& rows) { return elements_of(rows) * each_of(rows.function); }
double instructions(const ReduceProblem& p) { return points(p.kept) * points(p.reduced); }

Result<Forecast> forecast(const RowProgram& rows, const DeviceNumbers& device) {
  return streamed("rows", traffic(rows), instructions(rows), device);
}
Result<Forecast> forecast(const RowProblem& rows, const DeviceNumbers& device) {
  return streamed("rows", traffic(rows), instructions(rows), device);
}
Result<Forecast> forecast(const ReduceProblem& p, const DeviceNumbers& device) {
  return streamed("reduce", traffic(p), instructions(p), device);
}
Result<Forecast> forecast(const Strips&, const DeviceNumbers&) { return input_error("no CUDA kernel does this yet"); }

CpuForecast cpu_forecast(const RowProgram&, int) { return {"rows"}; }
CpuForecast cpu_forecast(const RowProblem&, int) { return {"rows"}; }
CpuForecast cpu_forecast(const ReduceProblem&, int) { return {"reduce"}; }
CpuForecast cpu_forecast(const Strips&, int) { return {"strips"}; }

}  // namespace ridge::ops
