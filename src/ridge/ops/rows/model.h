// Traffic, instructions and predicted times of row functions, reductions and row-block programs.
#pragma once

#include "ridge/ops/model.h"
#include "ridge/ops/rows/problem.h"

namespace ridge::ops {

double traffic_bytes(const RowProgram& rows);
double traffic_bytes(const RowProblem& rows);
double traffic_bytes(const ReduceProblem& reduction);
double instruction_count(const RowProgram& rows);
double instruction_count(const RowProblem& rows);
double instruction_count(const ReduceProblem& reduction);

Result<Forecast> forecast(const RowProgram& rows, const DeviceNumbers& device);
Result<Forecast> forecast(const RowProblem& rows, const DeviceNumbers& device);
Result<Forecast> forecast(const ReduceProblem& reduction, const DeviceNumbers& device);
Result<Forecast> forecast(const RowBlockProgram& blocks,
                          const DeviceNumbers& device);  // Always an error: no CUDA kernel exists.

CpuForecast cpu_forecast(const RowProgram& rows, int threads);
CpuForecast cpu_forecast(const RowProblem& rows, int threads);
CpuForecast cpu_forecast(const ReduceProblem& reduction, int threads);
CpuForecast cpu_forecast(const RowBlockProgram& blocks, int threads);

}  // namespace ridge::ops
