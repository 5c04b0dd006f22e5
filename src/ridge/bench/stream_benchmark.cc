#include "ridge/bench/stream_benchmark.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "ridge/bench/slowest_thread.h"
#include "ridge/machine/system.h"
#include "ridge/ops/chain/cpu.h"
#include "ridge/ops/rows/arithmetic.h"
#include "ridge/ops/rows/cpu.h"
#include "ridge/pool/peak.h"
#include "ridge/run/fill.h"
#include "ridge/run/memory.h"

namespace ridge {
namespace {

using ops::ChainOp;
using ops::ChainStep;

constexpr std::size_t l2_array_bytes = 96 << 10;  // bytes per array that stay in the L2
constexpr std::size_t l1_array_bytes = 8 << 10;   // bytes per array of which three fit into an L1 of 32 KiB
constexpr double cache_seconds_per_round = 2e-3;  // spent in the caches per measurement and round

bool is_compiled(StreamKernel kernel) {
  return kernel == StreamKernel::compiled_affine || kernel == StreamKernel::compiled_gelu;
}
bool has_gelu(StreamKernel kernel) { return kernel == StreamKernel::gelu || kernel == StreamKernel::compiled_gelu; }

std::vector<ChainStep> chain_steps(StreamKernel kernel) {
  if (kernel == StreamKernel::cosines)
    return {{.op = ChainOp::load, .result = 0, .slot = 0},
            {.op = ChainOp::cos, .result = 0, .a = 0, .repeat = 2},
            {.op = ChainOp::store, .a = 0, .slot = 2}};
  const ChainOp activation = has_gelu(kernel) ? ChainOp::gelu : ChainOp::relu;
  return {{.op = ChainOp::load, .result = 0, .slot = 0},
          {.op = ChainOp::constant, .result = 1, .constant = 1.3f},
          {.op = ChainOp::multiply, .result = 0, .a = 0, .b = 1},
          {.op = ChainOp::constant, .result = 1, .constant = 0.2f},
          {.op = ChainOp::add, .result = 0, .a = 0, .b = 1},
          {.op = activation, .result = 0, .a = 0},
          {.op = ChainOp::load, .result = 1, .slot = 1},
          {.op = ChainOp::multiply, .result = 0, .a = 0, .b = 1},
          {.op = ChainOp::store, .a = 0, .slot = 2}};
}

ops::RoofKernel arithmetic_kernel(StreamKernel kernel) {
  using ops::RoofKernel;
  if (kernel == StreamKernel::rmsnorm) return RoofKernel::rmsnorm;
  if (kernel == StreamKernel::softmax) return RoofKernel::softmax;
  if (kernel == StreamKernel::cosines) return RoofKernel::cosines;
  return has_gelu(kernel) ? RoofKernel::gelu : RoofKernel::affine;
}

double reference_chain_value(StreamKernel kernel, double x, double r) {
  if (kernel == StreamKernel::cosines) return std::cos(std::cos(x));
  // Rounds to f32 before the activation as the chain does, so that cancellation is not the activation's error.
  const double u = static_cast<double>(static_cast<float>(x) * 1.3f + 0.2f);
  return (has_gelu(kernel) ? 0.5 * u * std::erfc(-u * std::sqrt(0.5)) : std::max(u, 0.0)) * r;
}

// The arrays of one case and the functions that time them.
class StreamTrial {
 public:
  static Result<StreamTrial> make(const StreamCase& stream_case, const StreamOptions& options, std::size_t bytes) {
    StreamTrial trial(stream_case, options.threads,
                      static_cast<std::int64_t>(bytes) * 8 / dtype_bits(stream_case.dtype));
    const std::int64_t counts[] = {trial.elements_, stream_case.columns == 0 ? trial.elements_ : stream_case.columns,
                                   trial.elements_};
    for (std::size_t i = 0; i < 3; ++i) {
      auto made = ArrayStorage::make(stream_case.dtype, counts[i]);
      if (!made) return absent_error(fmt::format("no memory for three arrays of {} bytes", bytes));
      trial.arrays_[i] = *std::move(made);
      if (i < 2)
        fill_normal(trial.arrays_[i]->array(), 1, static_cast<int>(i), options.threads);
      else
        poison_array(trial.arrays_[i]->array(), options.threads);
    }
    return trial;
  }

  // Returns the seconds of `calls` calls of the kernel over `each` elements (whole rows) per thread.
  double time_kernel(std::int64_t each, int calls = 1) const {
    const bool interpreted = case_.columns == 0 && !is_compiled(case_.kernel);
    const ops::ChainProgram chain = interpreted ? chain_program(each) : ops::ChainProgram{};
    return time_slowest_thread(threads_, calls, [&](int worker) {
      const std::int64_t from = each * worker;
      if (case_.columns != 0)
        return ops::run_row_function(row_problem(each),
                                     {element_address(0, from), element_address(1, 0), element_address(2, from)}, 1);
      if (is_compiled(case_.kernel)) return ops::run_compiled_chain(make_compiled_chain(each, from));
      void* const tensors[] = {element_address(0, from), element_address(1, from), element_address(2, from)};
      ops::run_chain_program(chain, tensors, 1);
    });
  }
  double time_arithmetic(std::int64_t each, int calls = 1) const {
    return time_slowest_thread(threads_, calls, [&](int) {
      ops::run_roof_loop({arithmetic_kernel(case_.kernel), case_.dtype, each, case_.columns});
    });
  }
  // Returns the seconds of the kernel's loads and stores in a cache, without arithmetic: its passes over each row.
  double time_loads_stores(std::int64_t each, int calls) const {
    const std::int64_t run = case_.columns == 0 ? each : case_.columns;
    return time_slowest_thread(threads_, calls, [&](int worker) {
      for (std::int64_t from = each * worker; from < each * (worker + 1); from += run) move(from, run);
    });
  }
  double time_stream() const {
    const auto& loops = pool::peak_loops();
    const std::size_t bytes = elements_per_thread() * dtype_bits(case_.dtype) / 8;
    return time_slowest_thread(threads_, 1, [&](int worker) {
      const std::int64_t from = elements_per_thread() * worker;
      if (case_.arrays_read() == 1)
        loops.copy(element_address(2, from), element_address(0, from), bytes);
      else
        loops.xor_arrays(element_address(2, from), element_address(0, from), element_address(1, from), bytes);
    });
  }

  std::int64_t elements_per_thread() const {
    const std::int64_t granularity = std::max<std::int64_t>(case_.columns, 1024);
    return elements_ / threads_ / granularity * granularity;
  }
  double traffic_bytes() const {
    return static_cast<double>(elements_per_thread() * threads_ * dtype_bits(case_.dtype) / 8 *
                               (case_.arrays_read() + 1));
  }
  // Returns the elements per array, in whole rows.
  std::int64_t elements_in(std::size_t bytes) const {
    const auto some = static_cast<std::int64_t>(bytes) * 8 / dtype_bits(case_.dtype);
    return case_.columns == 0 ? some : std::max<std::int64_t>(some / case_.columns, 1) * case_.columns;
  }
  Status check_result(StreamRow& row) const {
    const std::int64_t run = std::max<std::int64_t>(case_.columns, 1);
    const double min_scale = case_.dtype == DType::f16 ? 0x1p-14 : 1e-30;  // smaller f16 values have fewer bits
    for (std::int64_t sample = 0; sample < (case_.columns == 0 ? 4096 : 3); ++sample) {
      const std::int64_t runs = elements_per_thread() * threads_ / run,
                         at = sample * 7919 * (runs / 4096 + 1) % runs * run;
      const std::vector<double> exact = case_.columns == 0 ? reference_element(at) : reference_row(at);
      for (std::int64_t i = 0; i < run; ++i) {
        const double got = read_element(arrays_[2]->array(), at + i), expected = exact[i];
        const double error = std::abs(got - expected) / std::max(std::abs(expected), min_scale);
        if (!(error <= row.allowed_error))
          return Error{
              .kind = ErrorKind::mismatch,
              .message = fmt::format("{} {} is wrong at element {}: found {:.9g}, expected {:.9g}",
                                     kernel_name(case_.kernel), ridge::dtype_name(case_.dtype), at + i, got, expected)};
        row.error = std::max(row.error, error);
      }
    }
    return Done{};
  }
  void poison_result() const { poison_array(arrays_[2]->array(), threads_); }

 private:
  void move(std::int64_t from, std::int64_t elements) const {
    const auto& loops = pool::peak_loops();
    const std::size_t bytes = elements * dtype_bits(case_.dtype) / 8;
    std::byte *const x = element_address(0, from), *const y = element_address(2, from);
    if (case_.columns != 0) loops.read(x, bytes);  // for the sum of squares, or the maximum
    if (case_.kernel == StreamKernel::rmsnorm) return loops.xor_arrays_cached(y, x, element_address(1, 0), bytes);
    if (case_.arrays_read() == 2) return loops.xor_arrays_cached(y, x, element_address(1, from), bytes);
    loops.copy_cached(y, x, bytes);
    if (case_.kernel == StreamKernel::softmax) loops.copy_cached(y, y, bytes);
  }

  StreamTrial(const StreamCase& stream_case, int threads, std::int64_t elements)
      : case_(stream_case), threads_(threads), elements_(elements) {}

  std::byte* element_address(std::size_t array, std::int64_t element) const {
    return arrays_[array]->array().data + element * dtype_bits(case_.dtype) / 8;
  }
  ops::RowProblem row_problem(std::int64_t elements) const {
    ops::RowProblem p;
    p.function = case_.kernel == StreamKernel::softmax ? ops::RowFunction::softmax : ops::RowFunction::rmsnorm;
    p.rows = elements / case_.columns;
    p.columns = case_.columns;
    p.x = p.y = {case_.dtype, case_.columns};
    p.weight_dtype = case_.dtype;
    return p;
  }
  ops::CompiledChain make_compiled_chain(std::int64_t elements, std::int64_t from) const {
    return {arithmetic_kernel(case_.kernel), case_.dtype, elements, element_address(0, from), element_address(1, from),
            element_address(2, from)};
  }
  ops::ChainProgram chain_program(std::int64_t elements) const {
    const ops::ChainTensor flat{case_.dtype, {1}};
    return {{elements}, {flat, flat, flat}, chain_steps(case_.kernel), 2};
  }
  std::vector<double> reference_element(std::int64_t i) const {
    return {reference_chain_value(case_.kernel, read_element(arrays_[0]->array(), i),
                                  read_element(arrays_[1]->array(), i))};
  }
  std::vector<double> reference_row(std::int64_t at) const {
    std::vector<double> v(case_.columns);
    const bool softmax = case_.kernel == StreamKernel::softmax;
    double sum = 0;
    for (std::size_t i = 0; i < v.size(); ++i) {
      const double x = read_element(arrays_[0]->array(), at + static_cast<std::int64_t>(i));
      v[i] = softmax ? std::exp(x) : x;
      sum += softmax ? v[i] : x * x;
    }
    const double scale = softmax ? 1 / sum : 1 / std::sqrt(sum / static_cast<double>(case_.columns) + 1e-5f);
    for (std::size_t i = 0; i < v.size(); ++i)
      v[i] *= scale * (softmax ? 1 : read_element(arrays_[1]->array(), static_cast<std::int64_t>(i)));
    return v;
  }

  StreamCase case_;
  int threads_;
  std::int64_t elements_;
  std::array<std::optional<ArrayStorage>, 3> arrays_;
};

// Returns the seconds for all elements of a call, measured over calls of `some` elements that take
// `cache_seconds_per_round` together.
template <class F> double time_scaled(const StreamTrial& trial, std::int64_t some, F call) {
  call(some, 1);
  const int calls = static_cast<int>(std::clamp(cache_seconds_per_round / std::max(call(some, 1), 1e-7), 1.0, 1e4));
  return call(some, calls) / calls * static_cast<double>(trial.elements_per_thread()) / static_cast<double>(some);
}

Result<StreamRow> time_case(const StreamCase& stream_case, const StreamOptions& options, std::size_t bytes) {
  RIDGE_TRY(trial, StreamTrial::make(stream_case, options, bytes));
  StreamRow row;
  row.stream_case = stream_case;
  row.bytes = trial.traffic_bytes();
  row.allowed_error = 4.2e-3;
  if (stream_case.dtype == DType::f32) row.allowed_error = 4e-6;
  if (stream_case.dtype == DType::f16) row.allowed_error = 5.3e-4;
  trial.time_kernel(trial.elements_per_thread());
  RIDGE_TRY_STATUS(trial.check_result(row));
  std::vector<double> mine, theirs, cached, in_l1, arithmetic, moves, ratios, in_cache;
  for (int r = 0; r < options.rounds; ++r) {
    const auto add_kernel_sample = [&] { mine.push_back(trial.time_kernel(trial.elements_per_thread())); };
    const auto add_stream_sample = [&] { theirs.push_back(trial.time_stream()); };
    const auto kernel_seconds = [&](std::int64_t some, int calls) { return trial.time_kernel(some, calls); };
    const auto load_store_seconds = [&](std::int64_t some, int calls) { return trial.time_loads_stores(some, calls); };
    const std::int64_t l2_elements = trial.elements_in(l2_array_bytes), l1_elements = trial.elements_in(l1_array_bytes);
    cached.push_back(time_scaled(trial, l2_elements, kernel_seconds));
    const double cached_moves = time_scaled(trial, l2_elements, load_store_seconds);
    in_l1.push_back(time_scaled(trial, l1_elements, kernel_seconds));
    const double l1_moves = time_scaled(trial, l1_elements, load_store_seconds);
    arithmetic.push_back(
        time_scaled(trial, l1_elements, [&](std::int64_t n, int calls) { return trial.time_arithmetic(n, calls); }));
    moves.push_back(in_l1.back() < cached.back() ? l1_moves : cached_moves);
    in_cache.push_back(std::max(arithmetic.back(), moves.back()) / std::min(cached.back(), in_l1.back()));
    if (r % 2 == 0) {
      add_kernel_sample();
      add_stream_sample();
    } else {
      add_stream_sample();
      add_kernel_sample();
    }
    ratios.push_back(theirs.back() / mine.back());
  }
  trial.poison_result();
  trial.time_kernel(trial.elements_per_thread());
  RIDGE_TRY_STATUS(trial.check_result(row));
  row.ridge_time = compute_statistics(mine);
  row.stream_time = compute_statistics(theirs);
  const Statistics ratio = compute_statistics(ratios);
  row.ratio = ratio.median;
  row.ratio_low = ratio.min;
  row.ratio_high = ratio.max;
  row.l2_s = compute_statistics(cached).median;
  row.l1_s = compute_statistics(in_l1).median;
  row.arithmetic_s = compute_statistics(arithmetic).median;
  row.load_store_s = compute_statistics(moves).median;
  row.in_cache_ratio = compute_statistics(in_cache).median;
  row.fraction_of_roof = std::max(row.stream_time.median, row.l2_s) / row.ridge_time.median;
  return row;
}

}  // namespace

std::string_view kernel_name(StreamKernel kernel) {
  switch (kernel) {
    case StreamKernel::rmsnorm: return "rmsnorm";
    case StreamKernel::softmax: return "softmax";
    case StreamKernel::affine: return "affine";
    case StreamKernel::gelu: return "gelu";
    case StreamKernel::cosines: return "cosines";
    case StreamKernel::compiled_affine: return "compiled_affine";
    case StreamKernel::compiled_gelu: return "compiled_gelu";
  }
  return "";
}

int StreamCase::arrays_read() const { return columns != 0 || kernel == StreamKernel::cosines ? 1 : 2; }
double StreamCase::min_allowed_ratio() const {
  return kernel == StreamKernel::rmsnorm || is_compiled(kernel) ? 0.95 : 0.85;
}

std::vector<StreamCase> stream_cases() {
  std::vector<StreamCase> all;
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    for (const StreamKernel kernel : {StreamKernel::rmsnorm, StreamKernel::softmax})
      for (const std::int64_t columns : {1024, 4096, 16384, 65536}) all.push_back({kernel, dtype, columns});
    for (const StreamKernel kernel : {StreamKernel::affine, StreamKernel::gelu, StreamKernel::cosines,
                                      StreamKernel::compiled_affine, StreamKernel::compiled_gelu})
      all.push_back({kernel, dtype, 0});
  }
  return all;
}

Result<StreamBenchmark> run_stream_benchmark(const StreamOptions& options) {
  StreamBenchmark result{.threads = options.threads, .rounds = options.rounds, .array_bytes = options.array_bytes};
  constexpr std::size_t array_granularity = 4 << 20;  // whole rows of 65536 elements for any number of threads
  if (result.array_bytes == 0)
    result.array_bytes = static_cast<std::size_t>(std::max(2 * read_system_properties().last_level_bytes, 0x1p26));
  result.array_bytes = std::max(result.array_bytes / array_granularity, std::size_t{1}) * array_granularity;
  std::vector<StreamCase> cases = stream_cases();
  std::erase_if(cases, [&](const StreamCase& c) {
    return !options.only_kernel.empty() && kernel_name(c.kernel) != options.only_kernel;
  });
  if (cases.empty())
    return input_error(fmt::format("no kernel is called '{}'", options.only_kernel),
                       "rmsnorm, softmax, affine, gelu, cosines, compiled_affine or compiled_gelu");
  for (std::size_t i = 0; i < cases.size(); ++i) {
    if (options.progress) options.progress(i, cases.size());
    RIDGE_TRY(row, time_case(cases[i], options, result.array_bytes));
    result.rows.push_back(row);
  }
  if (options.progress) options.progress(cases.size(), cases.size());
  return result;
}

}  // namespace ridge
