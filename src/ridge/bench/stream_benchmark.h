// Compares memory-bound kernels with the memory's speed. Each kernel takes turns with a loop that moves the same bytes:
// it reads as many arrays and writes one with non-temporal stores. Arrays are several times larger than the caches: a
// softmax at 40 GB/s next to a copy at 47 has a ratio of 0.85. A kernel that computes more slowly than memory delivers
// is also compared with its speed in cache; the lower roof counts. The speed in cache is compared with the kernel's
// instructions alone (ops/rows/arithmetic.h) and with its loads and stores alone: rows larger than the L1 are read from
// the L2 once per pass, and written lines are fetched and evicted, which at 32 bytes per cycle can take twice as long
// as the instructions (rmsnorm of f32, rows of 4096, Zen 3: 3 cycles per vector of 1.7). Again the lower roof counts.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "ridge/base/dtype.h"
#include "ridge/base/result.h"
#include "ridge/base/timer.h"

namespace ridge {

enum class StreamKernel {
  rmsnorm,          // rows times a weight
  softmax,          // rows
  affine,           // interpreted chain: y = max(1.3*x + 0.2, 0) * r
  gelu,             // interpreted chain: y = gelu(1.3*x + 0.2) * r
  cosines,          // interpreted chain: y = cos(cos(x))
  compiled_affine,  // affine as compiled code (ops/rows/arithmetic.h)
  compiled_gelu,
};
std::string_view kernel_name(StreamKernel kernel);

struct StreamCase {
  StreamKernel kernel = StreamKernel::rmsnorm;
  DType dtype = DType::f32;          // dtype of every array
  std::int64_t columns = 0;          // length of rows in rmsnorm and softmax; 0 for a chain
  int arrays_read() const;           // arrays read from memory; one is written
  double min_allowed_ratio() const;  // fraction of the roof that no change may fall below
};
inline constexpr double min_in_cache_ratio = 0.9;  // for every case, relative to the slower of instructions and moves
std::vector<StreamCase> stream_cases();

struct StreamOptions {
  int threads = 1;
  int rounds = 15;
  std::size_t array_bytes = 0;   // bytes per array; 0: twice the last-level cache, at least 64 MiB
  std::string only_kernel = {};  // only cases with this kernel name; empty selects all
  std::function<void(std::size_t done, std::size_t total)> progress = {};
};

struct StreamRow {
  StreamCase stream_case;
  double bytes = 0;                      // read and written by one call
  Statistics ridge_time, stream_time;    // CPU seconds of the slowest thread
  double l2_s = 0;                       // seconds for as many elements from the L2
  double l1_s = 0;                       // the same from the L1, if a row fits
  double arithmetic_s = 0;               // seconds of the instructions alone
  double load_store_s = 0;               // seconds of loads and stores alone, in the faster of L2 and L1
  double in_cache_ratio = 0;             // max(arithmetic_s, load_store_s) / min(l2_s, l1_s), median of rounds
  double ratio = 0;                      // stream over ridge_time, median of the rounds
  double ratio_low = 0, ratio_high = 0;  // minimum and maximum over the rounds
  double fraction_of_roof = 0;           // max(stream, l2_s) / ours
  double error = 0, allowed_error = 0;   // largest relative error, and what rounding explains
};

struct StreamBenchmark {
  int threads = 1, rounds = 0;
  std::size_t array_bytes = 0;
  std::vector<StreamRow> rows = {};
};

// Errors: no memory for the arrays, a wrong result (the element and both values), no case with that name.
Result<StreamBenchmark> run_stream_benchmark(const StreamOptions& options);

}  // namespace ridge
