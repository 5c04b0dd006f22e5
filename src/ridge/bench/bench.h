// Runners of `ridge bench`: each says what is timed and how, and returns a comparison.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ridge/bench/benchmark_shape.h"
#include "ridge/bench/comparison.h"
#include "ridge/machine/machine.h"

namespace ridge {

struct BenchOptions {
  bool cuda = false;                                            // Streams and repeats on the CUDA device
  int threads = 1;                                              // On a CPU
  int rounds = 0;                                               // 0 selects the benchmark's default
  std::string shapes = {};                                      // Path of a CSV file; empty selects data/cpu_shapes.csv
  std::vector<std::string> libraries = {"openblas", "onednn"};  // In addition to Ridge; or "cublaslt" alone
  int tuned_candidates = 0;  // On a device: number of the model's best plans that are timed; the fastest takes turns
  std::string only_kernel = {};  // Only streams of this name; empty selects all
  std::size_t array_bytes = 0;   // Streams on a CPU: bytes per array; 0: twice the last-level cache, at least 64 MiB
  std::int64_t elements = 0;     // Elements of a vector; 0 selects 2^28 on a device, 2^24 for repeats on a CPU
  int max_repeats = 0;           // Largest number of cosines; 0 selects 256, on a device 1024
  std::function<void(std::size_t done, std::size_t total)> progress = {};
};

// Returns a comparison without rows, with today's date.
Comparison start_comparison(const char* benchmark, const BenchOptions& options, int default_rounds);
// Times every case and appends its row.
template <class Case, class TimeCase> Status time_rows(Comparison& comparison, const std::vector<Case>& cases,
                                                       const BenchOptions& options, const TimeCase& time_case) {
  for (std::size_t i = 0; i < cases.size(); ++i) {
    if (options.progress) options.progress(i, cases.size());
    RIDGE_TRY(row, time_case(cases[i]));
    comparison.rows.push_back(std::move(row));
  }
  if (options.progress) options.progress(cases.size(), cases.size());
  return Done{};
}

// Runs the benchmark "matmul", "stream" or "repeats".
Result<Comparison> run_benchmark(const std::string& name, const BenchOptions& options);

// Compares products with other libraries on this CPU. Each library has its own process, because idle thread pools spin
// and disturb other timings. `machine` must be adjusted to the number of threads (machine/machine.h). Errors before the
// timing: a library is unknown or named twice, or a product does not fit into memory once per process. Later errors: a
// library is not installed, a process died, a result is wrong.
Result<Comparison> compare_cpu_products(const std::vector<BenchmarkShape>& shapes, const Machine& machine,
                                        const BenchOptions& options);
// Checks that a copy of each product for every process fits into `available` bytes.
Status check_benchmark_memory(const std::vector<BenchmarkShape>& shapes, std::size_t processes, std::int64_t available);

// Compares products with cuBLASLt on a CUDA device. Errors: no device, no cuBLASLt, no memory for the pools (10 GB). A
// wrong result is reported in its row.
Result<Comparison> compare_device_products(const std::vector<BenchmarkShape>& shapes, const BenchOptions& options);
// Returns the peak FLOP per cycle of one multiprocessor's matrix units: peak / (cores * the clock of the peaks), 4097
// on an H200 in bf16. Returns nullopt if the machine lacks one of these numbers.
std::optional<double> matrix_flops_per_cycle(const Machine& machine, DType dtype);
// Returns the fraction of the peak per cycle of `sm_hz`, or null if a number is unknown (0).
Json fraction_of_cycle_peak(double flops, double seconds, double sm_hz, double peak_flops_per_cycle);

// Sets the columns and classes of products on a CPU, whose classes separate the dtypes of the shapes, and on a device.
void set_cpu_product_columns(Comparison& comparison, const std::vector<BenchmarkShape>& shapes);
void set_device_product_columns(Comparison& comparison);
Json shape_labels(const BenchmarkShape& shape);

// Compares memory-bound kernels with the memory's speed, on a CPU or on a device. Errors: no device, no memory for the
// arrays, a wrong result (the element and both values), no kernel with that name.
Result<Comparison> compare_cpu_streams(const BenchOptions& options);
Result<Comparison> compare_device_streams(const BenchOptions& options);

// Measures fusion (docs/performance/repeats.md): a cosine is applied r times to a vector, as one kernel and as r
// kernels, each compared with the plan's prediction. One kernel moves 8 bytes per f32 element whatever r is, so its
// time is constant until arithmetic dominates; r kernels move 8 bytes each. A cosine counts as 1 FLOP. Errors: no
// device, no memory, a machine without plans, a wrong result.
Result<Comparison> compare_repeats(const BenchOptions& options);
// Draws time, FLOP/s and bytes/s against repeats on log axes, for one kernel and for one kernel per repeat: measured
// values as dots on a line, predictions dashed.
std::string repeats_svg(const Comparison& repeats);

}  // namespace ridge
