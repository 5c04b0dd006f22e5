// Measures the rates of a CUDA device: with events around a graph, or with the wall clock where the host takes part.
#include <fmt/format.h>

#include <algorithm>

#include "ridge/device/device.h"
#include "ridge/device/peak.h"
#include "ridge/measure/clocks.h"
#include "ridge/measure/probe.h"
#include "ridge/ops/product/cuda.h"
#include "ridge/run/device_machine.h"

namespace ridge {
namespace {

namespace cuda = ops::cuda;

constexpr std::int64_t max_stream_bytes = std::int64_t{2} << 30, transfer_bytes = std::int64_t{256} << 20;
constexpr std::int64_t matrix_side = 8192;
constexpr int launch_count = 1000;

class DeviceProbe {
 public:
  DeviceProbe(const ProbeOptions& options, device::DeviceProperties properties, device::Queue queue)
      : options_(options),
        properties_(std::move(properties)),
        queue_(std::move(queue)),
        blocks_(properties_.multiprocessors * 4) {}

  Result<std::vector<ProbeLine>> measure_all() {
    for (const auto& measure_part :
         {&DeviceProbe::measure_launches, &DeviceProbe::measure_memory, &DeviceProbe::measure_l2,
          &DeviceProbe::measure_host_transfers, &DeviceProbe::measure_multiply_adds, &DeviceProbe::measure_matmuls})
      RIDGE_TRY_STATUS((this->*measure_part)());
    if (options_.progress) options_.progress({.done = progress_steps, .total = progress_steps, .quantity = {}});
    return std::move(lines_);
  }

 private:
  static constexpr int progress_steps = 12;

  Status start_quantity(std::string_view quantity) {
    if (options_.progress && !options_.progress({.done = started_++, .total = progress_steps, .quantity = quantity}))
      return absent_error("the probe was stopped; nothing was written");
    return Done{};
  }

  void add_line(std::string name, std::string unit, const std::vector<double>& values, std::string note = "") {
    lines_.push_back(
        {std::move(name), std::move(unit), properties_.multiprocessors, compute_statistics(values), std::move(note)});
  }

  // Returns rates in `work` per second. A graph has `times` calls of `queue_once`; the first replay is not counted.
  Result<std::vector<double>> measure_rates(double work, int times, const std::function<Status()>& queue_once) {
    RIDGE_TRY(recording, queue_.record_graph([&]() -> Status {
      for (int i = 0; i < times; ++i) RIDGE_TRY_STATUS(queue_once());
      return Done{};
    }));
    std::vector<double> out;
    for (int run = 0; run < run_count() + 1; ++run) {
      RIDGE_TRY(seconds, queue_.measure_seconds([&] { return queue_.launch_graph(recording); }));
      if (run > 0) out.push_back(work * times / seconds);
    }
    return out;
  }
  int run_count() const { return std::max(options_.runs, 5); }

  Status add_rate_line(const std::string& name, double work, int times, const std::function<Status()>& queue_once) {
    RIDGE_TRY_STATUS(start_quantity(name));
    RIDGE_TRY(found, measure_rates(work, times, queue_once));
    add_line(name, "B/s", found);
    return Done{};
  }

  Status measure_launches() {
    RIDGE_TRY_STATUS(start_quantity("launch, eager"));
    const auto empty = [&] { return device::launch_empty_kernel(queue_.stream()); };
    std::vector<double> eager;
    for (int run = 0; run < run_count() + 1; ++run) {
      const Timer timer;
      for (int i = 0; i < launch_count; ++i) RIDGE_TRY_STATUS(empty());
      RIDGE_TRY_STATUS(queue_.synchronize());
      if (run > 0) eager.push_back(timer.seconds() / launch_count);
    }
    add_line("launch, eager", "s", eager);
    RIDGE_TRY_STATUS(start_quantity("launch, graph"));
    RIDGE_TRY(graph, measure_rates(1, launch_count, empty));
    for (double& rate : graph) rate = 1 / rate;
    add_line("launch, graph", "s", graph);
    return Done{};
  }

  Status measure_memory() {
    const std::int64_t bytes = std::min(max_stream_bytes, properties_.free_bytes / 4) / 4096 * 4096;
    const auto from = device::DeviceBuffer::allocate(bytes), to = device::DeviceBuffer::allocate(bytes);
    for (const auto* memory : {&from, &to})
      if (!*memory) return memory->error();
    RIDGE_TRY_STATUS(queue_.set_bytes(from->data(), 1, bytes));
    const device::StreamedBuffers x{to->data(), from->data(), bytes};
    const double work = static_cast<double>(bytes);
    RIDGE_TRY_STATUS(
        add_rate_line("copy", 2 * work, 4, [&] { return device::launch_copy(x, blocks_, queue_.stream()); }));
    if (const Status s =
            add_rate_line("read", work, 4, [&] { return device::launch_read(x, blocks_, queue_.stream()); });
        !s)
      return s;
    return add_rate_line("write", work, 4, [&] { return device::launch_write(x, blocks_, queue_.stream()); });
  }

  // Reads a quarter of the L2 repeatedly.
  Status measure_l2() {
    const std::int64_t bytes = std::max<std::int64_t>(properties_.l2_bytes / 4, 1 << 20) / 4096 * 4096;
    const auto memory = device::DeviceBuffer::allocate(bytes), sink = device::DeviceBuffer::allocate(256);
    for (const auto* each : {&memory, &sink})
      if (!*each) return each->error();
    RIDGE_TRY_STATUS(queue_.set_bytes(memory->data(), 1, bytes));
    constexpr int times = 200;
    const device::StreamedBuffers x{sink->data(), memory->data(), bytes, times};
    return add_rate_line("L2 read", static_cast<double>(bytes) * times, 1,
                         [&] { return device::launch_read(x, blocks_, queue_.stream()); });
  }

  Status measure_host_transfers() {
    const auto pinned = device::DeviceBuffer::allocate(transfer_bytes, device::DeviceBuffer::Location::host);
    const auto device_memory = device::DeviceBuffer::allocate(transfer_bytes);
    for (const auto* memory : {&pinned, &device_memory})
      if (!*memory) return memory->error();
    const double work = static_cast<double>(transfer_bytes);
    if (const Status s =
            add_rate_line("host to device", work, 1,
                          [&] { return queue_.copy(device_memory->data(), pinned->data(), transfer_bytes); });
        !s)
      return s;
    return add_rate_line("device to host", work, 1,
                         [&] { return queue_.copy(pinned->data(), device_memory->data(), transfer_bytes); });
  }

  Status measure_multiply_adds() {
    RIDGE_TRY_STATUS(start_quantity("f32"));
    constexpr int rounds = 20'000;
    const double work = 2.0 * rounds * device::multiply_adds_per_round * 512 * blocks_;
    RIDGE_TRY(found, measure_rates(work, 1, [&] { return device::launch_fma(rounds, blocks_, queue_.stream()); }));
    add_line("f32", "FLOP/s", found);
    return Done{};
  }

  Status measure_matmuls() {
    for (const DType dtype : {DType::bf16, DType::f16}) RIDGE_TRY_STATUS(measure_matmuls(dtype));
    return Done{};
  }

  // Returns the product of two square matrices of normal random numbers in `memory`.
  Result<cuda::MatmulCall> make_square_product(DType dtype, std::vector<device::DeviceBuffer>& memory) {
    for (std::uint32_t i = 0; i < 3; ++i) {
      RIDGE_TRY(matrix, device::DeviceBuffer::allocate(matrix_side * matrix_side * 2));
      RIDGE_TRY_STATUS(queue_.fill_normal(matrix.data(), dtype, matrix_side * matrix_side, i));
      memory.push_back(std::move(matrix));
    }
    cuda::MatmulCall call;
    call.problem = {1,
                    matrix_side,
                    matrix_side,
                    matrix_side,
                    {dtype, matrix_side, 1, 0},
                    {dtype, 1, matrix_side, 0},
                    {dtype, matrix_side, 1, 0}};
    call.a = memory[0].data();
    call.b = memory[1].data();
    call.d = memory[2].data();
    return call;
  }

  // First times one product at a time with pauses, so that the clock stays high; then runs for two seconds without a
  // pause and keeps the last samples.
  Status measure_matmuls(DType dtype) {
    RIDGE_TRY_STATUS(start_quantity(dtype_name(dtype)));
    std::vector<device::DeviceBuffer> memory;
    RIDGE_TRY(call, make_square_product(dtype, memory));
    RIDGE_TRY(device, current_device_numbers());
    const auto plan = cuda::choose_plan(call, 0, device);
    const double work = 2.0 * matrix_side * matrix_side * matrix_side;
    const auto product = [&] { return cuda::launch(call, plan, {}, queue_.stream()); };
    std::vector<double> cold, warm;
    double busy = 0;
    RIDGE_TRY_STATUS(queue_.measure_seconds(product));  // loads the kernel
    for (int run = 0; run < run_count(); ++run) {
      const Timer rest;
      while (rest.seconds() < 0.1) {}
      RIDGE_TRY(seconds, queue_.measure_seconds(product));
      cold.push_back(work / seconds);
    }
    std::string clock_note;
    while (busy < 2 * options_.seconds) {
      RIDGE_TRY(found, measure_rates(work, 20, product));
      for (const double rate : found) busy += 20 * work / rate;
      warm = found;
      if (const auto clocks = read_device_clocks())
        clock_note = fmt::format(
            "{:.0f} MHz of {:.0f}, {:.0f} W{}", clocks->sm_hz / 1e6, clocks->max_sm_hz / 1e6, clocks->power_w,
            clocks->throttle_reasons.empty() ? "" : ", limited by its " + clocks->throttle_reasons[0]);
    }
    add_line(fmt::format("{} cold", dtype_name(dtype)), "FLOP/s", cold, "8192 x 8192 x 8192, one at a time");
    add_line(fmt::format("{} warm", dtype_name(dtype)), "FLOP/s", warm, clock_note);
    return Done{};
  }

  const ProbeOptions& options_;
  device::DeviceProperties properties_;
  device::Queue queue_;
  int blocks_, started_ = 0;
  std::vector<ProbeLine> lines_;
};

const ProbeLine& line_named(const std::vector<ProbeLine>& lines, std::string_view name) {
  return *std::find_if(lines.begin(), lines.end(), [&](const ProbeLine& each) { return each.name == name; });
}

}  // namespace

// A roof must not be exceeded, so peaks are taken before the power limit lowers the clock, and the bandwidth is the
// best of read, copy and write.
Machine make_device_machine(const std::vector<ProbeLine>& lines, const std::string& title, std::int64_t memory_bytes,
                            std::int64_t l2_bytes) {
  const auto number = [&](std::string_view name, std::string source) {
    return to_machine_number(line_named(lines, name), std::move(source));
  };
  const auto from_driver = [&](std::int64_t bytes) {
    return SourcedValue{.value = static_cast<double>(bytes),
                        .source = "the CUDA driver",
                        .read_on = today_utc(),
                        .origin = Origin::measured};
  };
  Machine machine{.name = "cuda", .title = title, .peaks = {}, .memory = {}, .numbers = {}, .kernels = "sm90"};
  for (const DType dtype : {DType::bf16, DType::f16}) {
    const std::string_view dtype_text = dtype_name(dtype);
    SourcedValue rate = number(fmt::format("{} cold", dtype_text), "ridge probe --on cuda, 8192 cubed, one at a time");
    const ProbeLine& warm = line_named(lines, fmt::format("{} warm", dtype_text));
    rate.note += fmt::format("; {:.4g} without pauses", warm.rate.median);
    machine.peaks.push_back({ComputeUnit::matrix, dtype, rate});
  }
  machine.peaks.push_back(
      {ComputeUnit::vector, DType::f32, number("f32", "ridge probe --on cuda, fused multiply-adds")});
  std::string best = "read";
  for (const char* other : {"copy", "write"})
    if (line_named(lines, other).rate.median > line_named(lines, best).rate.median) best = other;
  machine.memory = {
      {"hbm", number(best, fmt::format("ridge probe --on cuda, {}", best)), from_driver(memory_bytes)},
      {"l2", number("L2 read", "ridge probe --on cuda, a quarter of it read repeatedly"), from_driver(l2_bytes)},
      {"host", number("host to device", "ridge probe --on cuda, from pinned memory"), std::nullopt}};
  machine.numbers["cores"] = from_driver(lines.front().cores);
  machine.numbers["launch_s"] = number("launch, graph", "ridge probe --on cuda, empty kernels in a graph");
  machine.numbers["launch_s"].note += fmt::format("; {:.3g} s eagerly", line_named(lines, "launch, eager").rate.median);
  return machine;
}

Result<ProbeReport> probe_cuda(const ProbeOptions& options) {
  RIDGE_TRY(properties, device::device_properties());
  ProbeReport report;
  if (options.write) {
    RIDGE_TRY(path, prepare_machine_path("cuda"));
    report.path = path;
  }
  RIDGE_TRY(queue, device::Queue::create());
  RIDGE_TRY(lines, DeviceProbe(options, properties, std::move(queue)).measure_all());
  report.lines = std::move(lines);
  report.machine = make_device_machine(report.lines, properties.name, properties.memory_bytes, properties.l2_bytes);
  if (options.write) RIDGE_TRY_STATUS(write_machine_file(report));
  return report;
}

}  // namespace ridge
