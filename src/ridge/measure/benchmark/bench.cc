#include "ridge/measure/benchmark/bench.h"

#include "ridge/machine/machine.h"

namespace ridge {

Result<CpuBenchmark> bench_matmul(const std::string& shapes, const CpuBenchmarkOptions& options) {
  const auto read = shapes.empty() ? parse_shapes(default_shapes(), "data/cpu_shapes.csv") : read_shapes(shapes);
  if (!read) return read.error();
  auto machine = find_machine("cpu");  // fails before the timing starts
  if (!machine) return machine.error();
  return run_cpu_benchmark(*read, limit_to_threads(*std::move(machine), options.threads), options);
}

Result<DeviceBenchmark> bench_device_matmul(const std::string& shapes, const DeviceBenchmarkOptions& options) {
  if (shapes.empty())
    return usage_error("expected --shapes with --against cublaslt",
                       "ridge bench matmul --against cublaslt --shapes FILE.csv");
  const auto read = read_shapes(shapes, BenchmarkTarget::device);
  if (!read) return read.error();
  return run_device_benchmark(*read, options);
}

}  // namespace ridge
