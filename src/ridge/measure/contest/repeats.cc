#include "ridge/measure/contest/repeats.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "ridge/base/cores.h"
#include "ridge/device/device.h"
#include "ridge/device/run_generated.h"
#include "ridge/machine/system.h"
#include "ridge/measure/contest/together.h"
#include "ridge/measure/device_machine.h"
#include "ridge/measure/fill.h"
#include "ridge/measure/memory.h"
#include "ridge/ops/chain/cpu.h"
#include "ridge/ops/chain/cuda.h"
#include "ridge/ops/rows/cuda.h"
#include "ridge/pool/isa.h"

namespace ridge {
namespace {

namespace cuda = ops::cuda;

constexpr double allowed = 4e-6;
constexpr std::int64_t samples = 1 << 12;
constexpr int fewest_launches = 4;  // launches in a graph

ops::ChainProgram cosines(std::int64_t elements, int times) {
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
struct Move {
  int from, to, times;
};
std::vector<Move> moves(bool fused, int repeats) {
  if (fused) return {{0, 1, repeats}};
  std::vector<Move> out;
  for (int left = repeats; left > 0; --left) {
    const int to = left % 2 == 1 ? 1 : 2;
    out.push_back({left == repeats ? 0 : 3 - to, to, 1});
  }
  return out;
}

Status wrong(std::int64_t element, double got, double want) {
  return Error{.kind = ErrorKind::mismatch,
               .message = fmt::format("the repeated cosine is wrong at element {}: found {:.9g}, expected {:.9g}",
                                      element, got, want)};
}

Status compare(const Array& x, const Array& y, std::int64_t first, int repeats, double& error) {
  for (std::int64_t i = 0; i < x.elements; ++i) {
    double want = read(x, i);
    for (int r = 0; r < repeats; ++r) want = std::cos(want);
    const double got = read(y, i), found = std::abs(got - want) / std::max(std::abs(want), 1e-3);
    if (!(found <= allowed)) return wrong(first + i, got, want);
    error = std::max(error, found);
  }
  return Done{};
}

class OnCpu {
 public:
  static Result<OnCpu> make(std::int64_t elements, int threads) {
    OnCpu out;
    out.threads_ = threads;
    out.each_ = elements / threads / 1024 * 1024;
    for (std::size_t i = 0; i < 3; ++i) {
      out.arrays_[i] = ArrayStorage::make(DType::f32, elements);
      if (!out.arrays_[i])
        return absent_error(fmt::format("no memory for three arrays of {} elements", elements),
                            "lower --elements");
      if (i == 0)
        fill_normal(out.arrays_[0]->array(), 1, 0, threads);
      else
        poison(out.arrays_[i]->array(), threads);
    }
    return Result<OnCpu>(std::move(out));
  }
  std::int64_t elements() const { return each_ * threads_; }
  Result<double> seconds(bool fused, int repeats) const {
    double sum = 0;
    for (const Move& move : moves(fused, repeats))
      sum += slowest_of(threads_, 1, [&](int worker) {
        void* const data[] = {at(move.from, each_ * worker), at(move.to, each_ * worker)};
        ops::chain(cosines(each_, move.times), data, 1);
      });
    return sum;
  }
  Status check(int repeats, double& error) const {
    for (const std::int64_t first : {std::int64_t{0}, elements() / 2, elements() - samples})
      if (const Status ok = compare(part(0, first), part(1, first), first, repeats, error); !ok) return ok;
    return Done{};
  }
  Status forget() const {
    poison(arrays_[1]->array(), threads_);
    return Done{};
  }

 private:
  std::byte* at(int array, std::int64_t element) const {
    return arrays_[static_cast<std::size_t>(array)]->array().data + element * 4;
  }
  Array part(int array, std::int64_t first) const { return {DType::f32, samples, at(array, first)}; }

  int threads_ = 1;
  std::int64_t each_ = 0;
  std::array<std::optional<ArrayStorage>, 3> arrays_;
};

class OnDevice {
 public:
  static Result<OnDevice> make(std::int64_t elements) {
    auto queue = cuda::Queue::make();
    if (!queue) return queue.error();
    OnDevice out(*std::move(queue), elements);
    for (int i = 0; i < 3; ++i) {
      auto memory = cuda::Memory::make(elements * 4);
      if (!memory) return memory.error();
      out.arrays_.push_back(std::move(*memory));
    }
    if (const Status filled = out.queue_.fill_normal(out.arrays_[0].data(), DType::f32, elements, 1); !filled)
      return filled.error();
    if (const Status done = out.forget(); !done) return done.error();
    return Result<OnDevice>(std::move(out));
  }
  std::int64_t elements() const { return elements_; }
  Result<double> seconds(bool fused, int repeats) const {
    const std::vector<Move> all = moves(fused, repeats);
    const int times = std::max(1, fewest_launches / static_cast<int>(all.size()));
    const auto recording = queue_.record([&]() -> Status {
      for (int i = 0; i < times; ++i)
        for (const Move& move : all)
          if (const Status queued = launch(move); !queued) return queued;
      return Done{};
    });
    if (!recording) return recording.error();
    const auto took = queue_.elapsed([&] { return queue_.replay(*recording); });
    return took ? Result<double>(*took / times) : took.error();
  }
  Status check(int repeats, double& error) const {
    std::vector<float> x(samples), y(samples);
    const auto array = [](std::vector<float>& v) {
      return Array{DType::f32, samples, reinterpret_cast<std::byte*>(v.data())};
    };
    for (const std::int64_t first : {std::int64_t{0}, elements_ / 2, elements_ - samples}) {
      for (const Status& done : {queue_.copy(x.data(), arrays_[0].data() + first * 4, samples * 4),
                                 queue_.copy(y.data(), arrays_[1].data() + first * 4, samples * 4), queue_.wait()})
        if (!done) return done;
      if (const Status ok = compare(array(x), array(y), first, repeats, error); !ok) return ok;
    }
    return Done{};
  }
  Status forget() const { return queue_.set(arrays_[1].data(), 0xff, elements_ * 4); }

 private:
  OnDevice(cuda::Queue queue, std::int64_t elements) : queue_(std::move(queue)), elements_(elements) {}
  Status launch(const Move& move) const {
    void* const data[] = {arrays_[static_cast<std::size_t>(move.from)].data(),
                          arrays_[static_cast<std::size_t>(move.to)].data()};
    if (const auto trouble = cuda::chain(cosines(elements_, move.times), data, queue_.stream()))
      return absent_error("the CUDA device failed at " + *trouble, "`nvidia-smi` shows the device's state");
    return Done{};
  }

  cuda::Queue queue_;
  std::int64_t elements_;
  std::vector<cuda::Memory> arrays_ = {};
};

Result<Interval> predicted(const Machine& machine, std::int64_t elements, int repeats) {
  const auto program = parse(fmt::format("x: f32[N]   y: f32[N] = repeat({}, cos, x)", repeats));
  if (!program) return program.error();
  const auto explanation = explain(*program, machine, {{"N", elements}});
  if (!explanation) return explanation.error();
  const auto planned = predict(*program, *explanation);
  return planned ? Result<Interval>(planned->predicted_s) : planned.error();
}

Status add_predictions(RepeatsPoint& point, const Machine& machine, std::int64_t elements) {
  const auto fused = predicted(machine, elements, point.repeats), one = predicted(machine, elements, 1);
  if (!fused) return fused.error();
  if (!one) return one.error();
  const double times = point.repeats;
  point.fused.predicted = *fused;
  point.unfused.predicted = {times * one->low, times * one->expected, times * one->high};
  return Done{};
}

template <class Site> Status play(const Site& site, int rounds, RepeatsPoint& point) {
  const double n = static_cast<double>(site.elements());
  point.flops = n * point.repeats;
  point.fused.bytes = 8 * n;
  point.unfused.bytes = 8 * n * point.repeats;
  std::vector<double> fused, unfused;
  for (int round = 0; round < rounds; ++round)
    for (const int turn : {0, 1}) {
      const bool one = (turn == 0) == (round % 2 == 0);
      RepeatsWay& way = one ? point.fused : point.unfused;
      const bool ends = round == 0 || round + 1 == rounds;  // the first run also warms up
      if (ends)
        if (const Status done = site.forget(); !done) return done;
      if (round == 0)
        if (const auto warmed = site.seconds(one, point.repeats); !warmed) return warmed.error();
      const auto took = site.seconds(one, point.repeats);
      if (!took) return took.error();
      (one ? fused : unfused).push_back(*took);
      if (ends)
        if (const Status ok = site.check(point.repeats, way.error); !ok) return ok;
    }
  point.fused.time = statistics(fused);
  point.unfused.time = statistics(unfused);
  return Done{};
}

template <class Site> Status play_all(const Site& site, int most, const RepeatsOptions& options, Repeats& out) {
  out.elements = site.elements();
  std::vector<int> all;
  for (int repeats = 1; repeats <= most; repeats *= 2) all.push_back(repeats);
  for (const int repeats : all) {
    if (options.progress) options.progress(out.points.size(), all.size());
    RepeatsPoint point{.repeats = repeats};
    if (const Status done = add_predictions(point, out.machine, out.elements); !done) return done;
    if (const Status done = play(site, options.rounds, point); !done) return done;
    out.points.push_back(point);
  }
  return Done{};
}

Status on_device(const RepeatsOptions& options, Repeats& out) {
  auto machine = find_device_machine();
  if (!machine) return machine.error();
  out.machine = *std::move(machine);
  const auto facts = cuda::device_facts();
  if (!facts) return facts.error();
  out.driver = facts->driver;
  out.kernels = "sm_90a";
  out.note = cuda::interpreted().value_or("");
  const auto site = OnDevice::make(options.elements > 0 ? options.elements : std::int64_t{1} << 28);
  if (!site) return site.error();
  const Status played = play_all(*site, options.most > 0 ? options.most : 1024, options, out);
  out.clocks = device_clocks();
  return played;
}

Status on_cpu(const RepeatsOptions& options, Repeats& out) {
  out.threads = options.threads > 0 ? options.threads : usable_cores();
  out.kernels = name(tile::cpu::isa());
  auto machine = find_machine("cpu");
  if (!machine) return machine.error();
  out.machine = seen_with_threads(*std::move(machine), out.threads);
  const auto site = OnCpu::make(options.elements > 0 ? options.elements : std::int64_t{1} << 24, out.threads);
  if (!site) return site.error();
  return play_all(*site, options.most > 0 ? options.most : 256, options, out);
}

}  // namespace

Result<Repeats> repeats(const RepeatsOptions& options) {
  const int threads = options.threads > 0 ? options.threads : usable_cores();
  const std::int64_t least = samples * std::max(2, threads);  // samples from the middle must fit as well
  if (options.elements != 0 && options.elements < least)
    return usage_error(fmt::format("expected at least {} elements, found {}", least, options.elements),
                       "a vector that fits into the caches does not measure the memory");
  Repeats out{.day = today(), .rounds = options.rounds, .allowed_error = allowed};
  const Status played = options.cuda ? on_device(options, out) : on_cpu(options, out);
  return played ? Result<Repeats>(std::move(out)) : played.error();
}

}  // namespace ridge
