// Compares Ridge with other libraries on the same products in one run. Each library has its own process, because idle
// thread pools spin and disturb other timings. The parent lets the libraries take turns, round after round, on the same
// shape and data, so that clock drift affects all of them. Each result is checked against an fp64 sum before and after
// the timing. A ratio above 1 means that Ridge is faster.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ridge/base/result.h"
#include "ridge/base/timer.h"
#include "ridge/bench/benchmark_shape.h"
#include "ridge/machine/machine.h"

namespace ridge {

struct CpuBenchmarkOptions {
  int threads = 1;
  int rounds = 7;
  std::vector<std::string> libraries = {"openblas", "onednn"};  // in addition to ridge
  std::function<void(std::size_t done, std::size_t total)> progress = {};
};

struct LibraryTime {
  std::string library;
  bool supported = false;  // false if the library cannot compute this product
  Statistics time = {};    // seconds of one call
  double flop_per_s = 0;   // at the median time
  double max_error = 0;    // largest |got - ref| / (|A||B|) of the checked elements, before and after timing
};

struct CpuBenchmarkRow {
  BenchmarkShape shape;
  std::vector<LibraryTime> times = {};          // ridge first
  std::string best_library = {};                // fastest of the other libraries; empty if none supports the product
  double ratio = 0;                             // best library's median over ridge's; 0 without a library
  double ratio_low = 0, ratio_high = 0;         // minimum and maximum over the rounds
  std::optional<double> fraction_of_peak = {};  // ridge's rate over the peak; nullopt without a peak
};

struct CpuBenchmarkSummary {  // summary of a group of rows
  std::string name;
  std::size_t rows = 0;
  double geometric_mean = 0, worst_ratio = 0;
};

struct CpuBenchmark {
  int threads = 1, rounds = 0;
  std::string machine, machine_title;                 // machine whose peaks the fractions refer to
  std::vector<std::string> libraries = {};            // the libraries' descriptions
  std::vector<std::string> removed_environment = {};  // variables that would have changed a library
  std::vector<CpuBenchmarkRow> rows = {};
  // Per dtype, in order of occurrence: all rows, M > 8, M <= 8.
  std::vector<CpuBenchmarkSummary> summarize_shape_classes() const;
};

// `machine` must be adjusted to the number of threads (machine/machine.h). Errors before the timing: a library is
// unknown or named twice, or a product does not fit into memory once per process. Later errors: a library is not
// installed, a process died, a result is wrong.
Result<CpuBenchmark> run_cpu_benchmark(const std::vector<BenchmarkShape>& shapes, const Machine& machine,
                                       const CpuBenchmarkOptions& options);

// Checks that a copy of each product for every process fits into `available` bytes.
Status check_benchmark_memory(const std::vector<BenchmarkShape>& shapes, std::size_t processes, std::int64_t available);

}  // namespace ridge
