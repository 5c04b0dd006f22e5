// Compares Ridge with cuBLASLt on the same products of a CUDA device in one run. Operands are slices of a pool of
// random normals that rotate so that consecutive launches touch 256 MB or more (cold L2); the launches are recorded in
// a CUDA graph. Ridge, cuBLASLt's first heuristic and the best of its first eight take turns, so that a drop of the
// clock affects all of them. Times are medians over rounds; the ratio is the median of the rounds' ratios and exceeds 1
// if Ridge is faster. Before and after the timing, 4096 elements are compared with f64 and all with cuBLASLt.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ridge/base/result.h"
#include "ridge/base/timer.h"
#include "ridge/bench/benchmark_shape.h"
#include "ridge/machine/machine.h"
#include "ridge/measure/nvml.h"
#include "ridge/ops/product/cuda.h"

namespace ridge {

struct DeviceBenchmarkOptions {
  int rounds = 9;
  int tuned_candidates = 0;  // number of the model's best plans that are timed as well; the fastest takes turns, too
  std::function<void(std::size_t done, std::size_t total)> progress = {};
};

struct CandidateTime {
  ops::cuda::MatmulPlan plan;
  double seconds = 0;  // median of three replays
};

struct DeviceBenchmarkRow {
  BenchmarkShape shape;
  Statistics ridge_time = {}, first_heuristic_time = {},
             best_heuristic_time =
                 {};  // seconds per product; the heuristics are cuBLASLt's, without runs if unsupported
  int best_heuristic = 0;
  double ratio = 0, ratio_to_first = 0;  // 0 if cuBLASLt does not support the product
  ops::cuda::MatmulPlan plan = {};
  std::vector<CandidateTime> candidates = {};  // timed plans, fastest first
  double tuned_ratio = 0;                      // `ratio` of the fastest candidate; 0 without candidates
  // Clock by NVML after the last turn. All runners take turns of a few ms under that clock, so it belongs to the row
  // and not to one of them. 0 without NVML.
  double sm_hz = 0;
  double peak_flops_per_cycle = 0;        // peak of the device's matrix units in this dtype; 0 if unknown
  double fraction_of_cycle_peak() const;  // ridge's FLOP per cycle of sm_hz over peak_flops_per_cycle; 0 if unknown
  bool is_correct = false;
  double error_over_bound = 0;  // largest error over its bound
};

struct DeviceBenchmarkSummary {
  std::string name;
  std::size_t rows = 0, wrong = 0;
  double geometric_mean = 0, geometric_mean_first = 0, worst_ratio = 0, percentile_5 = 0, prediction_error = 0;
  double tuned_geometric_mean = 0;    // geometric mean of tuned_ratio; 0 without candidates
  double fraction_of_cycle_peak = 0;  // geometric mean over the rows where it is known
};

struct DeviceBenchmark {
  std::string device;
  int driver = 0;
  std::size_t cublaslt_version = 0;
  int rounds = 0;
  std::vector<DeviceBenchmarkRow> rows = {};
  std::vector<BenchmarkShape> skipped = {};  // dtypes that Ridge does not multiply, sizes beyond the pool
  std::optional<DeviceClocks> clocks_before = {}, clocks_after = {};
  std::vector<DeviceBenchmarkSummary> summarize_shape_classes() const;
};

// Returns the peak FLOP per cycle of one multiprocessor's matrix units: peak / (cores * the clock of the peaks), 4097
// on an H200 in bf16. Returns nullopt if the machine lacks one of these numbers.
std::optional<double> matrix_flops_per_cycle(const Machine& machine, DType dtype);

// Errors: no device, no cuBLASLt, no memory for the pools (10 GB). A wrong result is reported in its row.
Result<DeviceBenchmark> run_device_benchmark(const std::vector<BenchmarkShape>& shapes,
                                             const DeviceBenchmarkOptions& options);

}  // namespace ridge
