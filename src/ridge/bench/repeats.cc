#include "ridge/bench/repeats.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "ridge/base/cores.h"
#include "ridge/bench/slowest_thread.h"
#include "ridge/device/device.h"
#include "ridge/device/run_generated.h"
#include "ridge/machine/system.h"
#include "ridge/ops/chain/cpu.h"
#include "ridge/ops/chain/cuda.h"
#include "ridge/ops/rows/cuda.h"
#include "ridge/pool/isa.h"
#include "ridge/run/device_machine.h"
#include "ridge/run/fill.h"
#include "ridge/run/memory.h"

namespace ridge {
namespace {

namespace cuda = ops::cuda;

constexpr double max_relative_error = 4e-6;
constexpr std::int64_t checked_samples = 1 << 12;
constexpr int min_launches = 4;  // launches in a graph

ops::ChainProgram cosine_chain(std::int64_t elements, int times) {
  using ops::ChainOp;
  const ops::ChainTensor flat{DType::f32, {1}};
  return {{elements},
          {flat, flat},
          {{.op = ChainOp::load, .result = 0, .slot = 0},
           {.op = ChainOp::cos, .result = 0, .a = 0, .repeat = times},
           {.op = ChainOp::store, .a = 0, .slot = 1}},
          1};
}

// Uses three arrays: the first kernel reads array 0, then kernels write arrays 1 and 2 alternately so that the last one
// writes 1. A single kernel writes 1, too.
struct CosineStep {
  int from, to, times;
};
std::vector<CosineStep> list_steps(bool fused, int repeats) {
  if (fused) return {{0, 1, repeats}};
  std::vector<CosineStep> out;
  for (int left = repeats; left > 0; --left) {
    const int to = left % 2 == 1 ? 1 : 2;
    out.push_back({left == repeats ? 0 : 3 - to, to, 1});
  }
  return out;
}

Status wrong_element_error(std::int64_t element, double got, double expected) {
  return Error{.kind = ErrorKind::mismatch,
               .message = fmt::format("the repeated cosine is wrong at element {}: found {:.9g}, expected {:.9g}",
                                      element, got, expected)};
}

Status check_samples(const Array& x, const Array& y, std::int64_t first, int repeats, double& error) {
  for (std::int64_t i = 0; i < x.elements; ++i) {
    double expected = read_element(x, i);
    for (int r = 0; r < repeats; ++r) expected = std::cos(expected);
    const double got = read_element(y, i), found = std::abs(got - expected) / std::max(std::abs(expected), 1e-3);
    if (!(found <= max_relative_error)) return wrong_element_error(first + i, got, expected);
    error = std::max(error, found);
  }
  return Done{};
}

class CpuCosines {
 public:
  static Result<CpuCosines> make(std::int64_t elements, int threads) {
    CpuCosines out;
    out.threads_ = threads;
    out.elements_per_thread_ = elements / threads / 1024 * 1024;
    for (std::size_t i = 0; i < 3; ++i) {
      out.arrays_[i] = ArrayStorage::make(DType::f32, elements);
      if (!out.arrays_[i])
        return absent_error(fmt::format("no memory for three arrays of {} elements", elements), "lower --elements");
      if (i == 0)
        fill_normal(out.arrays_[0]->array(), 1, 0, threads);
      else
        poison_array(out.arrays_[i]->array(), threads);
    }
    return Result<CpuCosines>(std::move(out));
  }
  std::int64_t elements() const { return elements_per_thread_ * threads_; }
  Result<double> time_repeats(bool fused, int repeats) const {
    double sum = 0;
    for (const CosineStep& step : list_steps(fused, repeats))
      sum += time_slowest_thread(threads_, 1, [&](int worker) {
        void* const data[] = {array_data(step.from, elements_per_thread_ * worker),
                              array_data(step.to, elements_per_thread_ * worker)};
        ops::run_chain_program(cosine_chain(elements_per_thread_, step.times), data, 1);
      });
    return sum;
  }
  Status check_result(int repeats, double& error) const {
    for (const std::int64_t first : {std::int64_t{0}, elements() / 2, elements() - checked_samples})
      RIDGE_TRY_STATUS(check_samples(sample_view(0, first), sample_view(1, first), first, repeats, error));
    return Done{};
  }
  Status poison_result() const {
    poison_array(arrays_[1]->array(), threads_);
    return Done{};
  }

 private:
  std::byte* array_data(int array, std::int64_t element) const { return arrays_[array]->array().data + element * 4; }
  Array sample_view(int array, std::int64_t first) const {
    return {DType::f32, checked_samples, array_data(array, first)};
  }

  int threads_ = 1;
  std::int64_t elements_per_thread_ = 0;
  std::array<std::optional<ArrayStorage>, 3> arrays_;
};

class DeviceCosines {
 public:
  static Result<DeviceCosines> make(std::int64_t elements) {
    RIDGE_TRY(queue, device::Queue::create());
    DeviceCosines out(std::move(queue), elements);
    for (int i = 0; i < 3; ++i) {
      RIDGE_TRY(memory, device::DeviceBuffer::allocate(elements * 4));
      out.arrays_.push_back(std::move(memory));
    }
    RIDGE_TRY_STATUS(out.queue_.fill_normal(out.arrays_[0].data(), DType::f32, elements, 1));
    RIDGE_TRY_STATUS(out.poison_result());
    return Result<DeviceCosines>(std::move(out));
  }
  std::int64_t elements() const { return elements_; }
  Result<double> time_repeats(bool fused, int repeats) const {
    const std::vector<CosineStep> all = list_steps(fused, repeats);
    const int times = std::max(1, min_launches / static_cast<int>(all.size()));
    RIDGE_TRY(recording, queue_.record_graph([&]() -> Status {
      for (int i = 0; i < times; ++i)
        for (const CosineStep& step : all) RIDGE_TRY_STATUS(launch_step(step));
      return Done{};
    }));
    const auto took = queue_.measure_seconds([&] { return queue_.launch_graph(recording); });
    return took ? Result<double>(*took / times) : took.error();
  }
  Status check_result(int repeats, double& error) const {
    std::vector<float> x(checked_samples), y(checked_samples);
    const auto array = [](std::vector<float>& v) {
      return Array{DType::f32, checked_samples, reinterpret_cast<std::byte*>(v.data())};
    };
    for (const std::int64_t first : {std::int64_t{0}, elements_ / 2, elements_ - checked_samples}) {
      RIDGE_TRY_STATUS(queue_.copy(x.data(), arrays_[0].data() + first * 4, checked_samples * 4));
      RIDGE_TRY_STATUS(queue_.copy(y.data(), arrays_[1].data() + first * 4, checked_samples * 4));
      RIDGE_TRY_STATUS(queue_.synchronize());
      RIDGE_TRY_STATUS(check_samples(array(x), array(y), first, repeats, error));
    }
    return Done{};
  }
  Status poison_result() const { return queue_.set_bytes(arrays_[1].data(), 0xff, elements_ * 4); }

 private:
  DeviceCosines(device::Queue queue, std::int64_t elements) : queue_(std::move(queue)), elements_(elements) {}
  Status launch_step(const CosineStep& step) const {
    void* const data[] = {arrays_[step.from].data(), arrays_[step.to].data()};
    return cuda::run_chain_program(cosine_chain(elements_, step.times), data, queue_.stream());
  }

  device::Queue queue_;
  std::int64_t elements_;
  std::vector<device::DeviceBuffer> arrays_ = {};
};

Result<Interval> predict_repeats(const Machine& machine, std::int64_t elements, int repeats) {
  RIDGE_TRY(program, parse(fmt::format("x: f32[N]   y: f32[N] = repeat({}, cos, x)", repeats)));
  RIDGE_TRY(explanation, explain(program, machine, {{"N", elements}}));
  const auto planned = predict_program(program, explanation);
  return planned ? Result<Interval>(planned->predicted_s) : planned.error();
}

Status add_predictions(RepeatsPoint& point, const Machine& machine, std::int64_t elements) {
  RIDGE_TRY(fused, predict_repeats(machine, elements, point.repeats));
  RIDGE_TRY(one, predict_repeats(machine, elements, 1));
  const double times = point.repeats;
  point.fused.predicted = fused;
  point.unfused.predicted = {times * one.low, times * one.expected, times * one.high};
  return Done{};
}

template <class Cosines> Status time_repeat_count(const Cosines& cosines, int rounds, RepeatsPoint& point) {
  const double n = static_cast<double>(cosines.elements());
  point.flops = n * point.repeats;
  point.fused.bytes = 8 * n;
  point.unfused.bytes = 8 * n * point.repeats;
  std::vector<double> fused, unfused;
  for (int round = 0; round < rounds; ++round)
    for (const int turn : {0, 1}) {
      const bool is_fused = (turn == 0) == (round % 2 == 0);
      RepeatsTiming& timing = is_fused ? point.fused : point.unfused;
      const bool checks_result = round == 0 || round + 1 == rounds;  // the first run also warms up
      if (checks_result) RIDGE_TRY_STATUS(cosines.poison_result());
      if (round == 0) RIDGE_TRY_STATUS(cosines.time_repeats(is_fused, point.repeats));
      RIDGE_TRY(took, cosines.time_repeats(is_fused, point.repeats));
      (is_fused ? fused : unfused).push_back(took);
      if (checks_result) RIDGE_TRY_STATUS(cosines.check_result(point.repeats, timing.error));
    }
  point.fused.time = compute_statistics(fused);
  point.unfused.time = compute_statistics(unfused);
  return Done{};
}

template <class Cosines>
Status time_all_repeats(const Cosines& cosines, int max_repeats, const RepeatsOptions& options, RepeatsBenchmark& out) {
  out.elements = cosines.elements();
  std::vector<int> all;
  for (int repeats = 1; repeats <= max_repeats; repeats *= 2) all.push_back(repeats);
  for (const int repeats : all) {
    if (options.progress) options.progress(out.points.size(), all.size());
    RepeatsPoint point{.repeats = repeats};
    RIDGE_TRY_STATUS(add_predictions(point, out.machine, out.elements));
    RIDGE_TRY_STATUS(time_repeat_count(cosines, options.rounds, point));
    out.points.push_back(point);
  }
  return Done{};
}

Status time_on_device(const RepeatsOptions& options, RepeatsBenchmark& out) {
  RIDGE_TRY(machine, find_device_machine());
  out.machine = std::move(machine);
  RIDGE_TRY(properties, device::device_properties());
  out.driver = properties.driver;
  out.kernel_isa = "sm_90a";
  if (const Reason note = device::interpreter_note()) out.note = note.text();
  RIDGE_TRY(cosines, DeviceCosines::make(options.elements > 0 ? options.elements : std::int64_t{1} << 28));
  const Status timed = time_all_repeats(cosines, options.max_repeats > 0 ? options.max_repeats : 1024, options, out);
  out.clocks = read_device_clocks();
  return timed;
}

Status time_on_cpu(const RepeatsOptions& options, RepeatsBenchmark& out) {
  out.threads = options.threads > 0 ? options.threads : usable_cores();
  out.kernel_isa = isa_name(pool::active_isa());
  RIDGE_TRY(machine, find_machine("cpu"));
  out.machine = limit_to_threads(std::move(machine), out.threads);
  RIDGE_TRY(cosines, CpuCosines::make(options.elements > 0 ? options.elements : std::int64_t{1} << 24, out.threads));
  return time_all_repeats(cosines, options.max_repeats > 0 ? options.max_repeats : 256, options, out);
}

}  // namespace

Result<RepeatsBenchmark> run_repeats_benchmark(const RepeatsOptions& options) {
  const int threads = options.threads > 0 ? options.threads : usable_cores();
  const std::int64_t min_elements = checked_samples * std::max(2, threads);  // samples from the middle must fit as well
  if (options.elements != 0 && options.elements < min_elements)
    return usage_error(fmt::format("expected at least {} elements, found {}", min_elements, options.elements),
                       "a vector that fits into the caches does not measure the memory");
  RepeatsBenchmark out{.day = today_utc(), .rounds = options.rounds, .allowed_error = max_relative_error};
  const Status timed = options.cuda ? time_on_device(options, out) : time_on_cpu(options, out);
  return timed ? Result<RepeatsBenchmark>(std::move(out)) : timed.error();
}

}  // namespace ridge
