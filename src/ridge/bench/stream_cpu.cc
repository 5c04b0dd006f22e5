// Compares memory-bound kernels with the memory's speed. Each kernel takes turns with a loop that moves the same bytes:
// it reads as many arrays and writes one with non-temporal stores. Arrays are several times larger than the caches: a
// softmax at 40 GB/s next to a copy at 47 has a ratio of 0.85. A kernel that computes more slowly than memory delivers
// is also compared with its speed in cache; the lower roof counts. The speed in cache is compared with the kernel's
// instructions alone (ops/rows/arithmetic.h) and with its loads and stores alone: rows larger than the L1 are read from
// the L2 once per pass, and written lines are fetched and evicted, which at 32 bytes per cycle can take twice as long
// as the instructions (rmsnorm of f32, rows of 4096, Zen 3: 3 cycles per vector of 1.7). Again the lower roof counts.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ridge/bench/bench.h"
#include "ridge/bench/cpu_arrays.h"
#include "ridge/machine/system.h"
#include "ridge/ops/rows/arithmetic.h"
#include "ridge/pool/peak.h"

namespace ridge {
namespace {

using ops::ChainOp;

constexpr std::size_t l2_array_bytes = 96 << 10;  // bytes per array that stay in the L2
constexpr std::size_t l1_array_bytes = 8 << 10;   // bytes per array of which three fit into an L1 of 32 KiB
constexpr double cache_seconds_per_round = 2e-3;  // spent in the caches per measurement and round
constexpr double min_in_cache_ratio = 0.9;        // for every kernel, relative to the slower of instructions and moves

std::vector<VectorKernel> cpu_kernels() {
  std::vector<VectorKernel> all;
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    for (const char* name : {"rmsnorm", "softmax"})
      for (const std::int64_t columns : {1024, 4096, 16384, 65536})
        all.push_back({.name = name, .dtype = dtype, .columns = columns, .has_weight = name[0] == 'r'});
    for (const auto& [name, function] : {std::pair{"affine", ChainOp::relu}, std::pair{"gelu", ChainOp::gelu}})
      all.push_back({.name = name, .dtype = dtype, .is_affine = true, .function = function, .has_gate = true});
    all.push_back({.name = "cosines", .dtype = dtype, .function = ChainOp::cos, .repeats = 2});
    for (const auto& [name, function] :
         {std::pair{"compiled_affine", ChainOp::relu}, std::pair{"compiled_gelu", ChainOp::gelu}})
      all.push_back({.name = name, .dtype = dtype, .is_affine = true, .function = function, .has_gate = true});
  }
  return all;
}

bool is_compiled(const VectorKernel& kernel) { return kernel.name.starts_with("compiled"); }
// Returns the fraction of the roof that no change may fall below.
double min_allowed_ratio(const VectorKernel& kernel) {
  return kernel.name == "rmsnorm" || is_compiled(kernel) ? 0.95 : 0.85;
}

ops::RoofKernel arithmetic_kernel(const VectorKernel& kernel) {
  using ops::RoofKernel;
  if (kernel.columns != 0) return kernel.has_weight ? RoofKernel::rmsnorm : RoofKernel::softmax;
  if (kernel.function == ChainOp::cos) return RoofKernel::cosines;
  return kernel.function == ChainOp::gelu ? RoofKernel::gelu : RoofKernel::affine;
}

// Times a kernel, parts of it and the stream, by the slowest thread; `each` is the number of elements per thread.
class StreamTimer {
 public:
  StreamTimer(const VectorKernel& kernel, const CpuArrays& arrays)
      : kernel_(kernel), arrays_(arrays), result_(kernel.array_count() - 1), each_(arrays.elements_per_thread()) {}

  double time_kernel() const { return time_kernel(each_, 1); }
  double time_stream() const {
    const auto& loops = pool::peak_loops();
    const std::size_t bytes = bytes_of(each_);
    return time_slowest_thread(arrays_.threads(), 1, [&](int worker) {
      const std::int64_t from = each_ * worker;
      if (kernel_.arrays_read() == 1)
        loops.copy(arrays_.address(result_, from), arrays_.address(0, from), bytes);
      else
        loops.xor_arrays(arrays_.address(result_, from), arrays_.address(0, from), arrays_.address(1, from), bytes);
    });
  }
  // The following return the seconds for as many elements as memory holds, measured on arrays of `bytes` in a cache.
  double time_cached_kernel(std::size_t bytes) const {
    return time_scaled(elements_in(bytes), [&](std::int64_t each, int calls) { return time_kernel(each, calls); });
  }
  // The kernel's loads and stores without arithmetic: its passes over each row.
  double time_loads_stores(std::size_t bytes) const {
    return time_scaled(elements_in(bytes), [&](std::int64_t each, int calls) {
      const std::int64_t run = kernel_.columns == 0 ? each : kernel_.columns;
      return time_slowest_thread(arrays_.threads(), calls, [&](int worker) {
        for (std::int64_t from = each * worker; from < each * (worker + 1); from += run) move_values(from, run);
      });
    });
  }
  double time_arithmetic() const {
    return time_scaled(elements_in(l1_array_bytes), [&](std::int64_t each, int calls) {
      return time_slowest_thread(arrays_.threads(), calls, [&](int) {
        ops::run_roof_loop({arithmetic_kernel(kernel_), kernel_.dtype, each, kernel_.columns});
      });
    });
  }

 private:
  std::int64_t bytes_of(std::int64_t elements) const { return elements * dtype_bits(kernel_.dtype) / 8; }
  // Returns the elements per array, in whole rows.
  std::int64_t elements_in(std::size_t bytes) const {
    const auto some = static_cast<std::int64_t>(bytes) * 8 / dtype_bits(kernel_.dtype);
    return kernel_.columns == 0 ? some : std::max<std::int64_t>(some / kernel_.columns, 1) * kernel_.columns;
  }

  double time_kernel(std::int64_t each, int calls) const {
    if (!is_compiled(kernel_)) return arrays_.time_kernel({kernel_, 0, result_}, each, calls);
    return time_slowest_thread(arrays_.threads(), calls, [&](int worker) {
      const std::int64_t from = each * worker;
      ops::run_compiled_chain({arithmetic_kernel(kernel_), kernel_.dtype, each, arrays_.address(0, from),
                               arrays_.address(1, from), arrays_.address(result_, from)});
    });
  }
  void move_values(std::int64_t from, std::int64_t elements) const {
    const auto& loops = pool::peak_loops();
    const std::size_t bytes = bytes_of(elements);
    std::byte *const x = arrays_.address(0, from), *const y = arrays_.address(result_, from);
    if (kernel_.columns != 0) loops.read(x, bytes);  // for the sum of squares, or the maximum
    if (kernel_.has_weight) return loops.xor_arrays_cached(y, x, arrays_.address(1, 0), bytes);
    if (kernel_.has_gate) return loops.xor_arrays_cached(y, x, arrays_.address(1, from), bytes);
    loops.copy_cached(y, x, bytes);
    if (kernel_.columns != 0) loops.copy_cached(y, y, bytes);  // softmax
  }

  // Returns the seconds for all elements of a call, measured over calls of `some` elements that take
  // `cache_seconds_per_round` together.
  template <class F> double time_scaled(std::int64_t some, F call) const {
    call(some, 1);
    const int calls = static_cast<int>(std::clamp(cache_seconds_per_round / std::max(call(some, 1), 1e-7), 1.0, 1e4));
    return call(some, calls) / calls * static_cast<double>(each_) / static_cast<double>(some);
  }

  const VectorKernel& kernel_;
  const CpuArrays& arrays_;
  std::size_t result_;
  std::int64_t each_;
};

// Appends the samples of one round in the caches and returns the fraction of the roof there.
double time_in_caches(const StreamTimer& timer, ComparisonRow& row) {
  const double cached = timer.time_cached_kernel(l2_array_bytes),
               cached_moves = timer.time_loads_stores(l2_array_bytes);
  const double in_l1 = timer.time_cached_kernel(l1_array_bytes), l1_moves = timer.time_loads_stores(l1_array_bytes);
  const double arithmetic = timer.time_arithmetic(), moves = in_l1 < cached ? l1_moves : cached_moves;
  const double samples[] = {cached, in_l1, arithmetic, moves};
  for (std::size_t i = 0; i < std::size(samples); ++i) row.competitors[2 + i].samples.push_back(samples[i]);
  return std::max(arithmetic, moves) / std::min(cached, in_l1);
}

// Returns a row without samples. `time_round` times the first two competitors, `time_in_caches` the others.
ComparisonRow start_row(const VectorKernel& kernel, double bytes) {
  ComparisonRow row{
      .labels = {{"kernel", kernel.name}, {"dtype", dtype_name(kernel.dtype)}, {"columns", kernel.columns}}};
  for (const char* name : {"ridge", "stream", "cached", "in L1", "arithmetic", "moves"})
    row.competitors.push_back({.name = name, .bytes = bytes, .is_supported = row.competitors.size() < 2});
  return row;
}

Result<ComparisonRow> compare_kernel(const VectorKernel& kernel, std::size_t array_bytes, const BenchOptions& options,
                                     int rounds) {
  const auto count = static_cast<std::int64_t>(array_bytes) * 8 / dtype_bits(kernel.dtype);
  std::vector<std::int64_t> counts(kernel.array_count(), count);
  if (kernel.has_weight) counts[1] = kernel.columns;
  RIDGE_TRY(arrays, CpuArrays::make(kernel.dtype, counts, counts.size() - 1, options.threads,
                                    std::max<std::int64_t>(kernel.columns, 1024)));
  const StreamTimer timer(kernel, arrays);
  const auto check_result = [&] {
    timer.time_kernel();
    return check_kernel(kernel, {.elements = arrays.elements(),
                                 .intervals = std::max(3, options.threads),
                                 .read_values = [&](auto... at) { return arrays.read_values(at...); }});
  };
  RIDGE_TRY(error_before, check_result());
  const double bytes = kernel.traffic_bytes(arrays.elements());
  ComparisonRow row = start_row(kernel, bytes);
  std::vector<double> in_cache;
  const auto time_call = [&](std::size_t i) -> Result<double> {
    return i == 0 ? timer.time_kernel() : timer.time_stream();
  };
  for (int round = 0; round < rounds; ++round) {
    in_cache.push_back(time_in_caches(timer, row));
    RIDGE_TRY_STATUS(time_round(row.competitors, static_cast<std::size_t>(round), time_call));
  }
  for (Competitor& competitor : row.competitors) competitor.is_supported = true;
  RIDGE_TRY_STATUS(arrays.poison(kernel.array_count() - 1));
  RIDGE_TRY(error_after, check_result());
  set_ratio(row, 1);
  const auto median = [&](std::size_t i) { return row.competitors[i].time().median; };
  row.numbers = {{"bytes", bytes},
                 {"of_roof", std::max(median(1), median(2)) / median(0)},
                 {"bar", min_allowed_ratio(kernel)},
                 {"in_cache", compute_statistics(in_cache).median},
                 {"in_cache_bar", min_in_cache_ratio},
                 {"max_error", std::max(error_before, error_after)},
                 {"allowed_error", kernel.allowed_error()}};
  return row;
}

}  // namespace

Result<Comparison> compare_cpu_streams(const BenchOptions& options) {
  RIDGE_TRY(kernels, select_kernels(cpu_kernels(), options.only_kernel));
  constexpr std::size_t array_granularity = 4 << 20;  // whole rows of 65536 elements for any number of threads
  std::size_t array_bytes = options.array_bytes;
  if (array_bytes == 0)
    array_bytes = static_cast<std::size_t>(std::max(2 * read_system_properties().last_level_bytes, 0x1p26));
  array_bytes = std::max(array_bytes / array_granularity, std::size_t{1}) * array_granularity;
  Comparison out = start_comparison("stream", options, 15);
  out.device = read_system_properties().model;
  out.threads = options.threads;
  out.settings["array_bytes"] = array_bytes;
  out.measures = {Comparison::Measure::gb_per_s};
  out.columns = {{"of_roof", "of roof"}, {"bar", "bar"}, {"in_cache", "in cache"}, {"in_cache_bar", "bar"}};
  out.ratio_meaning = "the time of the same reads and writes without arithmetic (stream) over ridge's";
  out.notes = {fmt::format(
      "arrays of {} MiB; cached: ridge with arrays in the L2; of roof: ridge over the lower of stream and "
      "cached;\nin L1: ridge with a row or 8 KiB in the L1; arithmetic: its instructions alone, on the same "
      "cache lines;\nmoves: its loads and stores alone, in the faster of L2 and L1; in cache: the higher "
      "of cached and in L1 over the lower of arithmetic and moves",
      array_bytes >> 20)};
  RIDGE_TRY_STATUS(time_rows(out, kernels, options, [&](const VectorKernel& kernel) {
    return compare_kernel(kernel, array_bytes, options, out.rounds);
  }));
  return out;
}

}  // namespace ridge
