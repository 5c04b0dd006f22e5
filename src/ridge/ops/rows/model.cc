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

double point_count(const std::vector<ReduceAxis>& axes) {
  double n = 1;
  for (const ReduceAxis& axis : axes) n *= static_cast<double>(axis.extent);
  return n;
}

// Instructions per element: softmax takes a maximum, a difference, an exponential, a sum and a product; rmsnorm two
// products and a multiply-add; layernorm also a sum and two differences.
double instructions_per_element(RowFunction function) {
  switch (function) {
    case RowFunction::softmax: return 4 + function_cost("exp").first_call;
    case RowFunction::log_sum_exp: return 3 + function_cost("exp").first_call;
    case RowFunction::rmsnorm:
    case RowFunction::softmax_gradient: return 3;
    case RowFunction::layernorm: return 6;
    case RowFunction::rmsnorm_gradient: return 7;
    case RowFunction::layernorm_gradient: return 12;
    case RowFunction::product_sum_across_rows: return 1;
    case RowFunction::rmsnorm_weight_gradient: return 3;
    case RowFunction::layernorm_weight_gradient: return 9;
  }
  return 0;
}
double instructions_per_element(const RowProgramStep& step, bool approximate) {
  if (step.kind == RowProgramStep::StepKind::row_reduction || step.kind == RowProgramStep::StepKind::sum_across_rows)
    return 1;
  return step.kind == RowProgramStep::StepKind::row_function ? instructions_per_element(step.row_function)
                                                             : instructions_per_step(step.step, approximate);
}

}  // namespace

double traffic_bytes(const RowProgram& rows) { return total_tensor_bytes(rows.tensors, extents_of(rows)); }
double traffic_bytes(const RowProblem& p) {
  double y = elements_of(p) * dtype_bits(p.y.dtype);
  if (is_row_scalar(p.function)) y /= static_cast<double>(p.columns);
  if (reduces_across_rows(p.function)) y = static_cast<double>(p.columns) * dtype_bits(p.y.dtype);
  return (elements_of(p) * (dtype_bits(p.x.dtype) + (is_gradient(p.function) ? dtype_bits(p.dy.dtype) : 0)) + y) / 8;
}
double traffic_bytes(const ReduceProblem& p) {
  return point_count(p.kept) * (point_count(p.reduced) * dtype_bits(p.x) + dtype_bits(p.y)) / 8;
}

double instruction_count(const RowProgram& rows) {
  const bool approximate = std::all_of(rows.steps.begin(), rows.steps.end(), [&](const RowProgramStep& step) {
    return step.kind != RowProgramStep::StepKind::element || can_approximate(rows.tensors, step.step);
  });
  double instructions_each = 0;
  for (const RowProgramStep& step : rows.steps) instructions_each += instructions_per_element(step, approximate);
  return element_count(extents_of(rows)) * instructions_each;
}
double instruction_count(const RowProblem& rows) { return elements_of(rows) * instructions_per_element(rows.function); }
double instruction_count(const ReduceProblem& p) { return point_count(p.kept) * point_count(p.reduced); }

Result<Forecast> forecast(const RowProgram& rows, const DeviceNumbers& device) {
  return forecast_streamed("rows", traffic_bytes(rows), instruction_count(rows), device);
}
Result<Forecast> forecast(const RowProblem& rows, const DeviceNumbers& device) {
  return forecast_streamed("rows", traffic_bytes(rows), instruction_count(rows), device);
}
Result<Forecast> forecast(const ReduceProblem& p, const DeviceNumbers& device) {
  return forecast_streamed("reduce", traffic_bytes(p), instruction_count(p), device);
}
Result<Forecast> forecast(const RowBlockProgram&, const DeviceNumbers&) {
  return input_error("no CUDA kernel does this yet");
}

CpuForecast cpu_forecast(const RowProgram&, int) { return {"rows"}; }
CpuForecast cpu_forecast(const RowProblem&, int) { return {"rows"}; }
CpuForecast cpu_forecast(const ReduceProblem&, int) { return {"reduce"}; }
CpuForecast cpu_forecast(const RowBlockProgram&, int) { return {"strips"}; }

}  // namespace ridge::ops
