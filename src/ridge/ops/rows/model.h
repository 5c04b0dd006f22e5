// Traffic, instructions and predicted times of row functions, reductions and row-block programs.
#pragma once

#include "ridge/ops/model.h"
#include "ridge/ops/rows/problem.h"

namespace ridge::ops {

double traffic(const RowProgram& rows);  // Bytes.
double traffic(const RowProblem& rows);
double traffic(const ReduceProblem& reduction);
double instructions(const RowProgram& rows);  // Counts all elements.
double instructions(const RowProblem& rows);
double instructions(const ReduceProblem& reduction);

Result<Forecast> forecast(const RowProgram& rows, const DeviceNumbers& device);
Result<Forecast> forecast(const RowProblem& rows, const DeviceNumbers& device);
Result<Forecast> forecast(const ReduceProblem& reduction, const DeviceNumbers& device);
Result<Forecast> forecast(const Strips& strips,
                          const DeviceNumbers& device);  // Always an error: there is no CUDA kernel.

CpuForecast cpu_forecast(const RowProgram& rows, int threads);
CpuForecast cpu_forecast(const RowProblem& rows, int threads);
CpuForecast cpu_forecast(const ReduceProblem& reduction, int threads);
CpuForecast cpu_forecast(const Strips& strips, int threads);

}  // namespace ridge::ops
