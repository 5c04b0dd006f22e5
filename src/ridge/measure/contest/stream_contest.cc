#include "ridge/measure/contest/stream_contest.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "ridge/machine/system.h"
#include "ridge/measure/contest/together.h"
#include "ridge/measure/fill.h"
#include "ridge/measure/memory.h"
#include "ridge/ops/chain/cpu.h"
#include "ridge/ops/rows/arithmetic.h"
#include "ridge/ops/rows/cpu.h"
#include "ridge/pool/peak.h"

namespace ridge {
namespace {

using ops::ChainOp;
using ops::ChainStep;

constexpr std::size_t cached_bytes = 96 << 10;  // bytes per array that stay in the L2
constexpr std::size_t l1_bytes = 8 << 10;       // bytes per array of which three fit into an L1 of 32 KiB
constexpr double cached_s = 2e-3;               // spent in the caches per measurement and round

bool compiled(StreamKernel kernel) {
  return kernel == StreamKernel::compiled_affine || kernel == StreamKernel::compiled_gelu;
}
bool has_gelu(StreamKernel kernel) { return kernel == StreamKernel::gelu || kernel == StreamKernel::compiled_gelu; }

std::vector<ChainStep> steps_of(StreamKernel kernel) {
  if (kernel == StreamKernel::cosines)
    return {{.op = ChainOp::load, .result = 0, .slot = 0},
            {.op = ChainOp::cos, .result = 0, .a = 0, .repeat = 2},
            {.op = ChainOp::store, .a = 0, .slot = 2}};
  const ChainOp bend = has_gelu(kernel) ? ChainOp::gelu : ChainOp::relu;
  return {{.op = ChainOp::load, .result = 0, .slot = 0},
          {.op = ChainOp::constant, .result = 1, .constant = 1.3f},
          {.op = ChainOp::multiply, .result = 0, .a = 0, .b = 1},
          {.op = ChainOp::constant, .result = 1, .constant = 0.2f},
          {.op = ChainOp::add, .result = 0, .a = 0, .b = 1},
          {.op = bend, .result = 0, .a = 0},
          {.op = ChainOp::load, .result = 1, .slot = 1},
          {.op = ChainOp::multiply, .result = 0, .a = 0, .b = 1},
          {.op = ChainOp::store, .a = 0, .slot = 2}};
}

ops::ArithmeticText arithmetic_of(StreamKernel kernel) {
  using ops::ArithmeticText;
  if (kernel == StreamKernel::rmsnorm) return ArithmeticText::rmsnorm;
  if (kernel == StreamKernel::softmax) return ArithmeticText::softmax;
  if (kernel == StreamKernel::cosines) return ArithmeticText::cosines;
  return has_gelu(kernel) ? ArithmeticText::gelu : ArithmeticText::affine;
}

double exact_chain(StreamKernel kernel, double x, double r) {
  if (kernel == StreamKernel::cosines) return std::cos(std::cos(x));
  // Rounds to f32 before the activation as the chain does, so that cancellation is not the activation's error.
  const double u = static_cast<double>(static_cast<float>(x) * 1.3f + 0.2f);
  return (has_gelu(kernel) ? 0.5 * u * std::erfc(-u * std::sqrt(0.5)) : std::max(u, 0.0)) * r;
}

// The arrays of one case and the functions that time them.
class Trial {
 public:
  static Result<Trial> make(const StreamCase& what, const StreamOptions& options, std::size_t bytes) {
    Trial trial(what, options.threads, static_cast<std::int64_t>(bytes) * 8 / bits(what.dtype));
    const std::int64_t counts[] = {trial.elements_, what.columns == 0 ? trial.elements_ : what.columns,
                                   trial.elements_};
    for (std::size_t i = 0; i < 3; ++i) {
      auto made = ArrayStorage::make(what.dtype, counts[i]);
      if (!made) return absent_error(fmt::format("no memory for three arrays of {} bytes", bytes));
      trial.arrays_[i] = *std::move(made);
      if (i < 2)
        fill_normal(trial.arrays_[i]->array(), 1, static_cast<int>(i), options.threads);
      else
        poison(trial.arrays_[i]->array(), options.threads);
    }
    return trial;
  }

  // Returns the seconds of `calls` calls of the kernel over `each` elements (whole rows) per thread.
  double ours(std::int64_t each, int calls = 1) const {
    const bool interpreted = what_.columns == 0 && !compiled(what_.kernel);
    const ops::ChainProgram chain = interpreted ? program(each) : ops::ChainProgram{};
    return slowest_of(threads_, calls, [&](int worker) {
      const std::int64_t from = each * worker;
      if (what_.columns != 0) return ops::rows(problem(each), {at(0, from), at(1, 0), at(2, from)}, 1);
      if (compiled(what_.kernel)) return ops::compiled_chain(text(each, from));
      void* const tensors[] = {at(0, from), at(1, from), at(2, from)};
      ops::chain(chain, tensors, 1);
    });
  }
  double arithmetic(std::int64_t each, int calls = 1) const {
    return slowest_of(threads_, calls, [&](int) {
      ops::arithmetic({arithmetic_of(what_.kernel), what_.dtype, each, what_.columns});
    });
  }
  // Returns the seconds of the kernel's loads and stores in a cache, without arithmetic: its passes over each row.
  double moves(std::int64_t each, int calls) const {
    const std::int64_t run = what_.columns == 0 ? each : what_.columns;
    return slowest_of(threads_, calls, [&](int worker) {
      for (std::int64_t from = each * worker; from < each * (worker + 1); from += run) move(from, run);
    });
  }
  double stream() const {
    const auto& loops = ops::peak_loops();
    const std::size_t bytes = static_cast<std::size_t>(each() * bits(what_.dtype) / 8);
    return slowest_of(threads_, 1, [&](int worker) {
      const std::int64_t from = each() * worker;
      if (what_.reads() == 1)
        loops.copy(at(2, from), at(0, from), bytes);
      else
        loops.combine(at(2, from), at(0, from), at(1, from), bytes);
    });
  }

  std::int64_t each() const {
    const std::int64_t grain = std::max<std::int64_t>(what_.columns, 1024);
    return elements_ / threads_ / grain * grain;
  }
  double bytes() const { return static_cast<double>(each() * threads_ * bits(what_.dtype) / 8 * (what_.reads() + 1)); }
  // Returns the elements per array, in whole rows.
  std::int64_t elements_of(std::size_t bytes) const {
    const auto some = static_cast<std::int64_t>(bytes) * 8 / bits(what_.dtype);
    return what_.columns == 0 ? some : std::max<std::int64_t>(some / what_.columns, 1) * what_.columns;
  }
  Status check(StreamRow& row) const {
    const std::int64_t run = std::max<std::int64_t>(what_.columns, 1);
    const double least = what_.dtype == DType::f16 ? 0x1p-14 : 1e-30;  // smaller f16 values have fewer bits
    for (std::int64_t sample = 0; sample < (what_.columns == 0 ? 4096 : 3); ++sample) {
      const std::int64_t runs = each() * threads_ / run, at = sample * 7919 * (runs / 4096 + 1) % runs * run;
      const std::vector<double> exact = what_.columns == 0 ? exact_element(at) : exact_row(at);
      for (std::int64_t i = 0; i < run; ++i) {
        const double got = read(arrays_[2]->array(), at + i), want = exact[static_cast<std::size_t>(i)];
        const double error = std::abs(got - want) / std::max(std::abs(want), least);
        if (!(error <= row.allowed))
          return Error{.kind = ErrorKind::mismatch,
                       .message = fmt::format("{} {} is wrong at element {}: found {:.9g}, expected {:.9g}",
                                              name(what_.kernel), ridge::name(what_.dtype), at + i, got, want)};
        row.error = std::max(row.error, error);
      }
    }
    return Done{};
  }
  void forget() const { poison(arrays_[2]->array(), threads_); }

 private:
  void move(std::int64_t from, std::int64_t elements) const {
    const auto& loops = ops::peak_loops();
    const std::size_t bytes = static_cast<std::size_t>(elements * bits(what_.dtype) / 8);
    std::byte *const x = at(0, from), *const y = at(2, from);
    if (what_.columns != 0) loops.read(x, bytes);  // for the sum of squares, or the maximum
    if (what_.kernel == StreamKernel::rmsnorm) return loops.combine_cached(y, x, at(1, 0), bytes);
    if (what_.reads() == 2) return loops.combine_cached(y, x, at(1, from), bytes);
    loops.copy_cached(y, x, bytes);
    if (what_.kernel == StreamKernel::softmax) loops.copy_cached(y, y, bytes);
  }

  Trial(const StreamCase& what, int threads, std::int64_t elements)
      : what_(what), threads_(threads), elements_(elements) {}

  std::byte* at(std::size_t array, std::int64_t element) const {
    return arrays_[array]->array().data + element * bits(what_.dtype) / 8;
  }
  ops::RowProblem problem(std::int64_t elements) const {
    ops::RowProblem p;
    p.function = what_.kernel == StreamKernel::softmax ? ops::RowFunction::softmax : ops::RowFunction::rmsnorm;
    p.rows = elements / what_.columns;
    p.columns = what_.columns;
    p.x = p.y = {what_.dtype, what_.columns};
    p.weight = what_.dtype;
    return p;
  }
  ops::CompiledChain text(std::int64_t elements, std::int64_t from) const {
    return {arithmetic_of(what_.kernel), what_.dtype, elements, at(0, from), at(1, from), at(2, from)};
  }
  ops::ChainProgram program(std::int64_t elements) const {
    const ops::ChainTensor flat{what_.dtype, {1}};
    return {{elements}, {flat, flat, flat}, steps_of(what_.kernel), 2};
  }
  std::vector<double> exact_element(std::int64_t i) const {
    return {exact_chain(what_.kernel, read(arrays_[0]->array(), i), read(arrays_[1]->array(), i))};
  }
  std::vector<double> exact_row(std::int64_t at) const {
    std::vector<double> v(static_cast<std::size_t>(what_.columns));
    const bool softmax = what_.kernel == StreamKernel::softmax;
    double sum = 0;
    for (std::size_t i = 0; i < v.size(); ++i) {
      const double x = read(arrays_[0]->array(), at + static_cast<std::int64_t>(i));
      v[i] = softmax ? std::exp(x) : x;
      sum += softmax ? v[i] : x * x;
    }
    const double scale = softmax ? 1 / sum : 1 / std::sqrt(sum / static_cast<double>(what_.columns) + 1e-5f);
    for (std::size_t i = 0; i < v.size(); ++i)
      v[i] *= scale * (softmax ? 1 : read(arrays_[1]->array(), static_cast<std::int64_t>(i)));
    return v;
  }

  StreamCase what_;
  int threads_;
  std::int64_t elements_;
  std::array<std::optional<ArrayStorage>, 3> arrays_;
};

// Returns the seconds for all elements of a call, measured over calls of `some` elements that take
// `cache_seconds_per_round` together.
template <class F> double scaled_seconds(const Trial& trial, std::int64_t some, F call) {
  call(some, 1);
  const int calls = static_cast<int>(std::clamp(cached_s / std::max(call(some, 1), 1e-7), 1.0, 1e4));
  return call(some, calls) / calls * static_cast<double>(trial.each()) / static_cast<double>(some);
}

Result<StreamRow> play(const StreamCase& what, const StreamOptions& options, std::size_t bytes) {
  auto trial = Trial::make(what, options, bytes);
  if (!trial) return trial.error();
  StreamRow row;
  row.what = what;
  row.bytes = trial->bytes();
  row.allowed = 4.2e-3;
  if (what.dtype == DType::f32) row.allowed = 4e-6;
  if (what.dtype == DType::f16) row.allowed = 5.3e-4;
  trial->ours(trial->each());
  if (auto ok = trial->check(row); !ok) return ok.error();
  std::vector<double> mine, theirs, cached, in_l1, arithmetic, moves, ratios, in_cache;
  for (int r = 0; r < options.rounds; ++r) {
    const auto one = [&] { mine.push_back(trial->ours(trial->each())); };
    const auto other = [&] { theirs.push_back(trial->stream()); };
    const auto ours = [&](std::int64_t some, int calls) { return trial->ours(some, calls); };
    const auto moved = [&](std::int64_t some, int calls) { return trial->moves(some, calls); };
    const std::int64_t far_some = trial->elements_of(cached_bytes), some = trial->elements_of(l1_bytes);
    cached.push_back(scaled_seconds(*trial, far_some, ours));
    const double cached_moves = scaled_seconds(*trial, far_some, moved);
    in_l1.push_back(scaled_seconds(*trial, some, ours));
    const double l1_moves = scaled_seconds(*trial, some, moved);
    arithmetic.push_back(
        scaled_seconds(*trial, some, [&](std::int64_t n, int calls) { return trial->arithmetic(n, calls); }));
    moves.push_back(in_l1.back() < cached.back() ? l1_moves : cached_moves);
    in_cache.push_back(std::max(arithmetic.back(), moves.back()) / std::min(cached.back(), in_l1.back()));
    if (r % 2 == 0) {
      one();
      other();
    } else {
      other();
      one();
    }
    ratios.push_back(theirs.back() / mine.back());
  }
  trial->forget();
  trial->ours(trial->each());
  if (auto ok = trial->check(row); !ok) return ok.error();
  row.ours = statistics(mine);
  row.stream = statistics(theirs);
  const Statistics ratio = statistics(ratios);
  row.ratio = ratio.median;
  row.low = ratio.min;
  row.high = ratio.max;
  row.cached_s = statistics(cached).median;
  row.l1_s = statistics(in_l1).median;
  row.arithmetic_s = statistics(arithmetic).median;
  row.moves_s = statistics(moves).median;
  row.in_cache = statistics(in_cache).median;
  row.of_roof = std::max(row.stream.median, row.cached_s) / row.ours.median;
  return row;
}

}  // namespace

std::string_view name(StreamKernel kernel) {
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

int StreamCase::reads() const { return columns != 0 || kernel == StreamKernel::cosines ? 1 : 2; }
double StreamCase::bar() const { return kernel == StreamKernel::rmsnorm || compiled(kernel) ? 0.95 : 0.85; }

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

Result<StreamContest> stream_contest(const StreamOptions& options) {
  StreamContest result{.threads = options.threads, .rounds = options.rounds, .array_bytes = options.array_bytes};
  constexpr std::size_t whole = 4 << 20;  // whole rows of 65536 elements for any number of threads
  if (result.array_bytes == 0)
    result.array_bytes = static_cast<std::size_t>(std::max(2 * read_system().last_level_bytes, 0x1p26));
  result.array_bytes = std::max(result.array_bytes / whole, std::size_t{1}) * whole;
  std::vector<StreamCase> cases = stream_cases();
  std::erase_if(cases, [&](const StreamCase& c) { return !options.only.empty() && name(c.kernel) != options.only; });
  if (cases.empty())
    return input_error(fmt::format("no kernel is called '{}'", options.only),
                       "rmsnorm, softmax, affine, gelu, cosines, compiled_affine or compiled_gelu");
  for (std::size_t i = 0; i < cases.size(); ++i) {
    if (options.progress) options.progress(i, cases.size());
    auto row = play(cases[i], options, result.array_bytes);
    if (!row) return row.error();
    result.rows.push_back(*row);
  }
  if (options.progress) options.progress(cases.size(), cases.size());
  return result;
}

}  // namespace ridge
