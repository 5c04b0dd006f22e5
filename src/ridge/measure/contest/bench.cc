#include "ridge/measure/contest/bench.h"

#include "ridge/machine/machine.h"

namespace ridge {

Result<Contest> bench(const std::string& shapes, const ContestOptions& options) {
  const auto read = shapes.empty() ? parse_shapes(default_shapes(), "data/cpu_shapes.csv") : read_shapes(shapes);
  if (!read) return read.error();
  auto machine = find_machine("cpu");  // fails before the timing starts
  if (!machine) return machine.error();
  return contest(*read, seen_with_threads(*std::move(machine), options.threads), options);
}

Result<DeviceContest> bench_device(const std::string& shapes, const DeviceContestOptions& options) {
  if (shapes.empty())
    return usage_error("expected --shapes with --against cublaslt",
                       "ridge bench matmul --against cublaslt --shapes FILE.csv");
  const auto read = read_shapes(shapes, Contested::device);
  if (!read) return read.error();
  return device_contest(*read, options);
}

}  // namespace ridge
