#include "ridge/bench/bench.h"

#include "ridge/machine/machine.h"

namespace ridge {

Result<CpuBenchmark> bench_matmul(const std::string& shapes, const CpuBenchmarkOptions& options) {
  RIDGE_TRY(read, shapes.empty() ? parse_shapes(default_shapes(), "data/cpu_shapes.csv") : read_shapes(shapes));
  RIDGE_TRY(machine, find_machine("cpu"));  // fails before the timing starts
  return run_cpu_benchmark(read, limit_to_threads(std::move(machine), options.threads), options);
}

Result<DeviceBenchmark> bench_device_matmul(const std::string& shapes, const DeviceBenchmarkOptions& options) {
  if (shapes.empty())
    return usage_error("expected --shapes with --against cublaslt",
                       "ridge bench matmul --against cublaslt --shapes FILE.csv");
  RIDGE_TRY(read, read_shapes(shapes, BenchmarkTarget::device));
  return run_device_benchmark(read, options);
}

}  // namespace ridge
