// How near the kernels that hardly compute come to the memory's speed. Each of them takes turns with a loop that only
// moves the same bytes: it reads as many arrays and writes one past the caches. The data are several times what the
// caches hold, so that a softmax which ran at 40 GB/s beside a copy of 47 has 0.85 of it. A kernel that cannot compute
// as fast as memory delivers is held against its own speed in cache as well, and of both roofs the lower counts. What
// it reaches in cache is itself held against its own instructions with nothing around them (ops/rows/arithmetic.h) and
// against its own moves with nothing computed: whose rows do not fit in the L1 reads them from the L2 once for each
// pass, brings in each line that it writes and sends it back, and at 32 bytes a cycle that alone can take twice as long
// as all instructions (rmsnorm of f32, rows of 4096, Zen 3: 3 cycles a vector of 1.7). Of both, again, the lower
// counts.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "ridge/base/dtype.h"
#include "ridge/base/result.h"
#include "ridge/measure/timer.h"

namespace ridge {

enum class StreamKernel {
  rmsnorm,          // of rows, times a weight
  softmax,          // of rows
  affine,           // chain, interpreted: y = max(1.3*x + 0.2, 0) * r
  gelu,             // chain, interpreted: y = gelu(1.3*x + 0.2) * r
  cosines,          // chain, interpreted: y = cos(cos(x))
  compiled_affine,  // the same as affine, known to the compiler (ops/rows/arithmetic.h)
  compiled_gelu,
};
std::string_view name(StreamKernel kernel);

struct StreamCase {
  StreamKernel kernel = StreamKernel::rmsnorm;
  DType dtype = DType::f32;  // of every array
  std::int64_t columns = 0;  // of rmsnorm and softmax; 0: a chain
  int reads() const;         // arrays from memory; each writes one
  double bar() const;        // of the roof, that a change may not fall below
};
inline constexpr double in_cache_bar = 0.9;  // of the lower of its own instructions' and moves' speed, for every case
std::vector<StreamCase> stream_cases();

struct StreamOptions {
  int threads = 1;
  int rounds = 15;
  std::size_t array_bytes = 0;  // of each array; 0: twice the last-level cache, at least 64 MiB
  std::string only = {};        // cases whose kernel has this name; empty: all
  std::function<void(std::size_t done, std::size_t of)> progress = {};
};

struct StreamRow {
  StreamCase what;
  double bytes = 0;               // read and written by one call
  Statistics ours, stream;        // seconds that the slowest thread was given, all at work on their own part
  double cached_s = 0;            // what as many elements take where they come from the L2
  double l1_s = 0;                // … from the L1, where a row fits
  double arithmetic_s = 0;        // what their instructions alone take
  double moves_s = 0;             // what their loads and stores alone take, where cached or in_l1 was shorter
  double in_cache = 0;            // the longer of own and moves over the shorter of cached and near; rounds' median
  double ratio = 0;               // stream over ours, median of the rounds' ratios
  double low = 0, high = 0;       // over the rounds
  double of_roof = 0;             // the longer of stream and cached over ours
  double error = 0, allowed = 0;  // largest relative error that was found, before or after, and what rounding explains
};

struct StreamContest {
  int threads = 1, rounds = 0;
  std::size_t array_bytes = 0;
  std::vector<StreamRow> rows = {};
};

// Errors: memory for the arrays; a result that is wrong (the element and both values); no case of that name.
Result<StreamContest> stream_contest(const StreamOptions& options);

}  // namespace ridge
