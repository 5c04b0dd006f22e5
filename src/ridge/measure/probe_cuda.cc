// Measures the rates of a CUDA device: with events around a graph, or with the wall clock where the host takes part.
#include <fmt/format.h>

#include <algorithm>

#include "ridge/device/device.h"
#include "ridge/device/peak.h"
#include "ridge/measure/device/nvml.h"
#include "ridge/measure/device_machine.h"
#include "ridge/measure/probe.h"
#include "ridge/ops/product/cuda.h"

namespace ridge {
namespace {

namespace cuda = ops::cuda;

constexpr std::int64_t most_stream_bytes = std::int64_t{2} << 30, carried_bytes = std::int64_t{256} << 20;
constexpr std::int64_t side = 8192;
constexpr int launches = 1000;

Status said(const std::optional<std::string>& trouble) {
  if (trouble) return absent_error("the CUDA device failed at " + *trouble, "`nvidia-smi` shows the device's state");
  return Done{};
}

class DeviceProbe {
 public:
  DeviceProbe(const ProbeOptions& options, cuda::DeviceFacts facts, cuda::Queue queue)
      : options_(options), facts_(std::move(facts)), queue_(std::move(queue)), blocks_(facts_.multiprocessors * 4) {}

  Result<std::vector<ProbeLine>> perform() {
    for (const auto& part : {&DeviceProbe::launching, &DeviceProbe::streaming, &DeviceProbe::cached,
                             &DeviceProbe::carrying, &DeviceProbe::arithmetic, &DeviceProbe::multiplying})
      if (const Status done = (this->*part)(); !done) return done.error();
    if (options_.progress) options_.progress({.done = parts, .of = parts, .what = {}});
    return std::move(lines_);
  }

 private:
  static constexpr int parts = 12;

  Status begin(std::string_view what) {
    if (options_.progress && !options_.progress({.done = begun_++, .of = parts, .what = what}))
      return absent_error("the probe was stopped; nothing was written");
    return Done{};
  }

  void add(std::string name, std::string unit, const std::vector<double>& values, std::string note = "") {
    lines_.push_back({std::move(name), std::move(unit), facts_.multiprocessors, statistics(values), std::move(note)});
  }

  // Returns rates in `work` per second. A graph has `times` calls of `queue_once`; the first replay is not counted.
  Result<std::vector<double>> rates(double work, int times, const std::function<Status()>& queue_once) {
    const auto recording = queue_.record([&]() -> Status {
      for (int i = 0; i < times; ++i)
        if (const Status queued = queue_once(); !queued) return queued;
      return Done{};
    });
    if (!recording) return recording.error();
    std::vector<double> out;
    for (int run = 0; run < runs() + 1; ++run) {
      const auto seconds = queue_.elapsed([&] { return queue_.replay(*recording); });
      if (!seconds) return seconds.error();
      if (run > 0) out.push_back(work * times / *seconds);
    }
    return out;
  }
  int runs() const { return std::max(options_.runs, 5); }

  Status rate_line(const std::string& name, double work, int times, const std::function<Status()>& queue_once) {
    if (const Status go = begin(name); !go) return go;
    const auto found = rates(work, times, queue_once);
    if (!found) return found.error();
    add(name, "B/s", *found);
    return Done{};
  }

  Status launching() {
    if (const Status go = begin("launch, eager"); !go) return go;
    const auto empty = [&] { return said(cuda::nothing(queue_.stream())); };
    std::vector<double> eager;
    for (int run = 0; run < runs() + 1; ++run) {
      const Timer timer;
      for (int i = 0; i < launches; ++i)
        if (const Status queued = empty(); !queued) return queued;
      if (const Status waited = queue_.wait(); !waited) return waited;
      if (run > 0) eager.push_back(timer.seconds() / launches);
    }
    add("launch, eager", "s", eager);
    if (const Status go = begin("launch, graph"); !go) return go;
    auto graph = rates(1, launches, empty);
    if (!graph) return graph.error();
    for (double& rate : *graph) rate = 1 / rate;
    add("launch, graph", "s", *graph);
    return Done{};
  }

  Status streaming() {
    const std::int64_t bytes = std::min(most_stream_bytes, facts_.free_bytes / 4) / 4096 * 4096;
    const auto from = cuda::Memory::make(bytes), to = cuda::Memory::make(bytes);
    for (const auto* memory : {&from, &to})
      if (!*memory) return memory->error();
    if (const Status set = queue_.set(from->data(), 1, bytes); !set) return set;
    const cuda::Streamed x{to->data(), from->data(), bytes};
    const double work = static_cast<double>(bytes);
    if (const Status s =
            rate_line("copy", 2 * work, 4, [&] { return said(cuda::copy_all(x, blocks_, queue_.stream())); });
        !s)
      return s;
    if (const Status s = rate_line("read", work, 4, [&] { return said(cuda::read_all(x, blocks_, queue_.stream())); });
        !s)
      return s;
    return rate_line("write", work, 4, [&] { return said(cuda::write_all(x, blocks_, queue_.stream())); });
  }

  // Reads a quarter of the L2 repeatedly.
  Status cached() {
    const std::int64_t bytes = std::max<std::int64_t>(facts_.l2_bytes / 4, 1 << 20) / 4096 * 4096;
    const auto memory = cuda::Memory::make(bytes), sink = cuda::Memory::make(256);
    for (const auto* each : {&memory, &sink})
      if (!*each) return each->error();
    if (const Status set = queue_.set(memory->data(), 1, bytes); !set) return set;
    constexpr int times = 200;
    const cuda::Streamed x{sink->data(), memory->data(), bytes, times};
    return rate_line("L2 read", static_cast<double>(bytes) * times, 1,
                     [&] { return said(cuda::read_all(x, blocks_, queue_.stream())); });
  }

  Status carrying() {
    const auto pinned = cuda::Memory::make(carried_bytes, cuda::Memory::Location::host);
    const auto there = cuda::Memory::make(carried_bytes);
    for (const auto* memory : {&pinned, &there})
      if (!*memory) return memory->error();
    const double work = static_cast<double>(carried_bytes);
    if (const Status s = rate_line("host to device", work, 1,
                                   [&] { return queue_.copy(there->data(), pinned->data(), carried_bytes); });
        !s)
      return s;
    return rate_line("device to host", work, 1,
                     [&] { return queue_.copy(pinned->data(), there->data(), carried_bytes); });
  }

  Status arithmetic() {
    if (const Status go = begin("f32"); !go) return go;
    constexpr int rounds = 20'000;
    const double work = 2.0 * rounds * cuda::multiply_adds_a_round * 512 * blocks_;
    const auto found = rates(work, 1, [&] { return said(cuda::multiply_add(rounds, blocks_, queue_.stream())); });
    if (!found) return found.error();
    add("f32", "FLOP/s", *found);
    return Done{};
  }

  Status multiplying() {
    for (const DType dtype : {DType::bf16, DType::f16})
      if (const Status done = multiplying(dtype); !done) return done;
    return Done{};
  }

  // First times one product at a time with pauses, so that the clock stays high; then runs for two seconds without a
  // pause and keeps the last samples.
  Status multiplying(DType dtype) {
    if (const Status go = begin(name(dtype)); !go) return go;
    std::vector<cuda::Memory> matrices;
    for (std::uint32_t i = 0; i < 3; ++i) {
      auto memory = cuda::Memory::make(side * side * 2);
      if (!memory) return memory.error();
      if (const Status filled = queue_.fill_normal(memory->data(), dtype, side * side, i); !filled) return filled;
      matrices.push_back(std::move(*memory));
    }
    cuda::MatmulCall call;
    call.problem = {1, side, side, side, {dtype, side, 1, 0}, {dtype, 1, side, 0}, {dtype, side, 1, 0}};
    call.a = matrices[0].data();
    call.b = matrices[1].data();
    call.d = matrices[2].data();
    const auto device = device_numbers_here();
    if (!device) return device.error();
    const auto plan = cuda::choose(call, 0, *device);
    const double work = 2.0 * side * side * side;
    const auto product = [&] { return said(cuda::launch(call, plan, {}, queue_.stream())); };
    std::vector<double> cold, warm;
    double busy = 0;
    if (const auto first = queue_.elapsed(product); !first) return first.error();  // loads the kernel
    for (int run = 0; run < runs(); ++run) {
      const Timer rest;
      while (rest.seconds() < 0.1) {}
      const auto seconds = queue_.elapsed(product);
      if (!seconds) return seconds.error();
      cold.push_back(work / *seconds);
    }
    std::string held;
    while (busy < 2 * options_.seconds) {
      const auto found = rates(work, 20, product);
      if (!found) return found.error();
      for (const double rate : *found) busy += 20 * work / rate;
      warm = *found;
      if (const auto clocks = device_clocks())
        held = fmt::format("{:.0f} MHz of {:.0f}, {:.0f} W{}", clocks->sm_hz / 1e6, clocks->most_sm_hz / 1e6,
                           clocks->power_w, clocks->slowed_by.empty() ? "" : ", limited by its " + clocks->slowed_by[0]);
    }
    add(fmt::format("{} cold", name(dtype)), "FLOP/s", cold, "8192 x 8192 x 8192, one at a time");
    add(fmt::format("{} warm", name(dtype)), "FLOP/s", warm, held);
    return Done{};
  }

  const ProbeOptions& options_;
  cuda::DeviceFacts facts_;
  cuda::Queue queue_;
  int blocks_, begun_ = 0;
  std::vector<ProbeLine> lines_;
};

const ProbeLine& line(const std::vector<ProbeLine>& lines, std::string_view name) {
  return *std::find_if(lines.begin(), lines.end(), [&](const ProbeLine& each) { return each.name == name; });
}

}  // namespace

// A roof must not be exceeded, so peaks are taken before the power limit lowers the clock, and the bandwidth is the
// best of read, copy and write.
Machine device_machine_of(const std::vector<ProbeLine>& lines, const std::string& title, std::int64_t memory_bytes,
                          std::int64_t l2_bytes) {
  const auto number = [&](std::string_view name, std::string source) {
    return as_measured(line(lines, name), std::move(source));
  };
  const auto as_told_by_driver = [&](std::int64_t bytes) {
    return Sourced{.value = static_cast<double>(bytes),
                   .source = "the CUDA driver",
                   .read_on = today(),
                   .origin = Origin::measured};
  };
  Machine machine{.name = "cuda", .title = title, .peaks = {}, .memory = {}, .numbers = {}, .kernels = "sm90"};
  for (const DType dtype : {DType::bf16, DType::f16}) {
    const std::string_view spelled = name(dtype);
    Sourced rate = number(fmt::format("{} cold", spelled), "ridge probe --on cuda, 8192 cubed, one at a time");
    const ProbeLine& warm = line(lines, fmt::format("{} warm", spelled));
    rate.note += fmt::format("; {:.4g} without pauses", warm.rate.median);
    machine.peaks.push_back({Unit::matrix, dtype, rate});
  }
  machine.peaks.push_back({Unit::vector, DType::f32, number("f32", "ridge probe --on cuda, fused multiply-adds")});
  std::string best = "read";
  for (const char* other : {"copy", "write"})
    if (line(lines, other).rate.median > line(lines, best).rate.median) best = other;
  machine.memory = {
      {"hbm", number(best, fmt::format("ridge probe --on cuda, {}", best)), as_told_by_driver(memory_bytes)},
      {"l2", number("L2 read", "ridge probe --on cuda, a quarter of it read repeatedly"),
       as_told_by_driver(l2_bytes)},
      {"host", number("host to device", "ridge probe --on cuda, from pinned memory"), std::nullopt}};
  machine.numbers["cores"] = as_told_by_driver(lines.front().cores);
  machine.numbers["launch_s"] = number("launch, graph", "ridge probe --on cuda, empty kernels in a graph");
  machine.numbers["launch_s"].note += fmt::format("; {:.3g} s eagerly", line(lines, "launch, eager").rate.median);
  return machine;
}

Result<ProbeReport> probe_cuda(const ProbeOptions& options) {
  const auto facts = cuda::device_facts();
  if (!facts) return facts.error();
  ProbeReport report;
  if (options.write) {
    auto path = probe_path("cuda");
    if (!path) return path.error();
    report.path = *path;
  }
  auto queue = cuda::Queue::make();
  if (!queue) return queue.error();
  auto lines = DeviceProbe(options, *facts, std::move(*queue)).perform();
  if (!lines) return lines.error();
  report.lines = *std::move(lines);
  report.machine = device_machine_of(report.lines, facts->name, facts->memory_bytes, facts->l2_bytes);
  if (options.write)
    if (const Status written = write_machine(report); !written) return written.error();
  return report;
}

}  // namespace ridge
