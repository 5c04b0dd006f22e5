#include "ridge/bench/device_stream.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "ridge/device/device.h"
#include "ridge/device/peak.h"
#include "ridge/device/run_generated.h"
#include "ridge/machine/system.h"
#include "ridge/ops/chain/cuda.h"
#include "ridge/ops/product/cuda.h"
#include "ridge/ops/rows/cuda.h"
#include "ridge/run/fill.h"

namespace ridge {
namespace {

namespace cuda = ops::cuda;
using ops::ChainOp, ops::ChainStep;

constexpr int launches_per_replay = 4;
constexpr std::int64_t samples = 1 << 14;

int cosine_count(const std::string& kernel) { return kernel.starts_with("cos_") ? std::atoi(kernel.c_str() + 4) : 0; }

std::vector<ChainStep> chain_steps(const std::string& kernel) {
  std::vector<ChainStep> out{{.op = ChainOp::load, .result = 0, .slot = 0}};
  if (kernel == "affine") {
    out.push_back({.op = ChainOp::constant, .result = 1, .constant = 1.3f});
    out.push_back({.op = ChainOp::multiply, .result = 0, .a = 0, .b = 1});
    out.push_back({.op = ChainOp::constant, .result = 1, .constant = 0.2f});
    out.push_back({.op = ChainOp::add, .result = 0, .a = 0, .b = 1});
  } else if (kernel == "gelu") {
    out.push_back({.op = ChainOp::gelu, .result = 0, .a = 0});
  } else if (kernel == "silu_gate") {
    out.push_back({.op = ChainOp::silu, .result = 0, .a = 0});
    out.push_back({.op = ChainOp::load, .result = 1, .slot = 1});
    out.push_back({.op = ChainOp::multiply, .result = 0, .a = 0, .b = 1});
  } else {
    out.push_back({.op = ChainOp::cos, .result = 0, .a = 0, .repeat = cosine_count(kernel)});
  }
  out.push_back({.op = ChainOp::store, .a = 0, .slot = kernel == "silu_gate" ? 2 : 1});
  return out;
}

double reference_value(const std::string& kernel, double x, double u) {
  if (kernel == "affine") return static_cast<double>(static_cast<float>(x) * 1.3f) + static_cast<double>(0.2f);
  if (kernel == "gelu") return 0.5 * x * std::erfc(-x * std::sqrt(0.5));
  if (kernel == "silu_gate") return x / (1 + std::exp(-x)) * u;
  for (int i = 0; i < cosine_count(kernel); ++i) x = std::cos(x);
  return x;
}

class DeviceStreamTrial {
 public:
  static Result<DeviceStreamTrial> make(const DeviceStreamCase& stream_case, const DeviceStreamOptions& options,
                                        const device::Queue& queue) {
    DeviceStreamTrial trial(stream_case, queue, options.elements);
    for (int i = 0; i <= stream_case.arrays_read(); ++i) {
      RIDGE_TRY(memory, device::DeviceBuffer::allocate(trial.array_bytes()));
      trial.arrays_.push_back(std::move(memory));
      if (i < stream_case.arrays_read())
        RIDGE_TRY_STATUS(
            queue.fill_normal(trial.array_data(i), stream_case.dtype, options.elements, static_cast<unsigned>(i)));
    }
    RIDGE_TRY_STATUS(queue.set_bytes(trial.array_data(stream_case.arrays_read()), 0xff, trial.array_bytes()));
    return Result<DeviceStreamTrial>(std::move(trial));
  }

  double traffic_bytes() const { return static_cast<double>(array_bytes()) * (case_.arrays_read() + 1); }
  Result<device::RecordedGraph> record_launches(bool ours) const {
    return queue_.record_graph([&]() -> Status {
      for (int i = 0; i < launches_per_replay; ++i) RIDGE_TRY_STATUS(ours ? launch_kernel() : launch_copy());
      return Done{};
    });
  }
  Status launch_kernel() const {
    void* const data[] = {array_data(0), array_data(1), case_.arrays_read() == 2 ? array_data(2) : nullptr};
    if (case_.columns != 0) {
      ops::RowProblem p;
      p.function = case_.kernel == "softmax" ? ops::RowFunction::softmax : ops::RowFunction::rmsnorm;
      p.rows = elements_ / case_.columns;
      p.columns = case_.columns;
      p.x = p.y = {case_.dtype, case_.columns};
      return cuda::launch_row_kernel(p, {array_data(0), nullptr, array_data(1)}, {}, queue_.stream());
    }
    const ops::ChainTensor flat{case_.dtype, {1}};
    const std::vector<ops::ChainTensor> tensors(case_.arrays_read() + 1, flat);
    return cuda::run_chain_program({{elements_}, tensors, chain_steps(case_.kernel), 2},
                                   std::span(data, static_cast<std::size_t>(case_.arrays_read() + 1)), queue_.stream());
  }

  // Checks intervals at the start, the middle and the end of the result.
  Status check_result(DeviceStreamRow& row) const {
    const std::int64_t run = std::max(case_.columns, samples);
    for (const std::int64_t from : {std::int64_t{0}, elements_ / 2 / run * run, elements_ - run}) {
      std::vector<std::vector<double>> v;
      for (int i = 0; i <= case_.arrays_read(); ++i) {
        RIDGE_TRY(some, read_values(i, from, run));
        v.push_back(std::move(some));
      }
      RIDGE_TRY_STATUS(case_.columns == 0 ? check_chain(v, from, row) : check_rows(v, from, row));
    }
    return Done{};
  }

 private:
  DeviceStreamTrial(const DeviceStreamCase& stream_case, const device::Queue& queue, std::int64_t elements)
      : case_(stream_case), queue_(queue), elements_(elements) {}

  std::int64_t array_bytes() const { return elements_ * dtype_bits(case_.dtype) / 8; }
  std::byte* array_data(int array) const { return arrays_[array].data(); }

  // Copies half as many bytes as the kernel reads and writes, so that the copy's total traffic is equal.
  Status launch_copy() const {
    const std::int64_t total_bytes = array_bytes() * (case_.arrays_read() + 1) / 2;
    for (std::int64_t done = 0; done < total_bytes; done += array_bytes()) {
      const device::StreamedBuffers x{array_data(case_.arrays_read()), array_data(0),
                                      std::min(array_bytes(), total_bytes - done)};
      RIDGE_TRY_STATUS(device::launch_copy(x, 4 * device::multiprocessor_count(), queue_.stream()));
    }
    return Done{};
  }

  Result<std::vector<double>> read_values(int array, std::int64_t from, std::int64_t count) const {
    const std::int64_t size = dtype_bits(case_.dtype) / 8;
    std::vector<std::byte> raw(count * size);
    RIDGE_TRY_STATUS(queue_.copy(raw.data(), array_data(array) + from * size, count * size));
    RIDGE_TRY_STATUS(queue_.synchronize());
    std::vector<double> out(count);
    const Array view{case_.dtype, count, raw.data()};
    for (std::int64_t i = 0; i < count; ++i) out[i] = read_element(view, i);
    return out;
  }

  Status check_element(double got, double expected, double scale, std::int64_t element, DeviceStreamRow& row) const {
    const double error =
        std::abs(got - expected) / std::max(std::abs(scale), case_.dtype == DType::f16 ? 0x1p-14 : 1e-30);
    if (!(error <= row.allowed_error))
      return Error{
          .kind = ErrorKind::mismatch,
          .message = fmt::format("{} {} of {} columns is wrong at element {}: found {:.9g}, expected {:.9g}",
                                 case_.kernel, dtype_name(case_.dtype), case_.columns, element, got, expected)};
    row.error = std::max(row.error, error);
    return Done{};
  }
  Status check_chain(const std::vector<std::vector<double>>& v, std::int64_t from, DeviceStreamRow& row) const {
    for (std::size_t i = 0; i < v[0].size(); ++i) {
      const double expected = reference_value(case_.kernel, v[0][i], v.size() > 2 ? v[1][i] : 0);
      // A sum with cancellation is compared relative to its terms.
      const double scale = case_.kernel == "affine" ? std::max(std::abs(expected), 0.2) : expected;
      RIDGE_TRY_STATUS(check_element(v.back()[i], expected, scale, from + static_cast<std::int64_t>(i), row));
    }
    return Done{};
  }
  Status check_rows(const std::vector<std::vector<double>>& v, std::int64_t from, DeviceStreamRow& row) const {
    const std::size_t columns = case_.columns;
    const bool softmax = case_.kernel == "softmax";
    for (std::size_t first = 0; first < v[0].size(); first += columns) {
      double sum = 0;
      for (std::size_t i = 0; i < columns; ++i)
        sum += softmax ? std::exp(v[0][first + i]) : v[0][first + i] * v[0][first + i];
      const double scale = softmax ? 1 / sum : 1 / std::sqrt(sum / static_cast<double>(columns) + 1e-5f);
      for (std::size_t i = 0; i < columns; ++i) {
        const double expected = scale * (softmax ? std::exp(v[0][first + i]) : v[0][first + i]);
        if (const Status ok =
                check_element(v[1][first + i], expected, expected, from + static_cast<std::int64_t>(first + i), row);
            !ok)
          return ok;
      }
    }
    return Done{};
  }

  DeviceStreamCase case_;
  const device::Queue& queue_;
  std::int64_t elements_;
  std::vector<device::DeviceBuffer> arrays_;
};

Result<DeviceStreamRow> time_case(const DeviceStreamCase& stream_case, const DeviceStreamOptions& options,
                                  const device::Queue& queue) {
  RIDGE_TRY(trial, DeviceStreamTrial::make(stream_case, options, queue));
  DeviceStreamRow row;
  row.stream_case = stream_case;
  row.bytes = trial.traffic_bytes();
  row.allowed_error = 4.2e-3;
  if (stream_case.dtype == DType::f32) row.allowed_error = 4e-6;
  if (stream_case.dtype == DType::f16) row.allowed_error = 5.3e-4;
  RIDGE_TRY_STATUS(trial.launch_kernel());
  RIDGE_TRY_STATUS(trial.check_result(row));
  RIDGE_TRY(mine, trial.record_launches(true));
  RIDGE_TRY(theirs, trial.record_launches(false));
  std::vector<double> ours, copy, ratios;
  for (int round = -1; round < options.rounds; ++round) {  // round -1 warms up
    double seconds[2] = {};
    for (const int turn : {0, 1}) {
      const bool is_ours = (turn == 0) == (round % 2 == 0);
      RIDGE_TRY(took, queue.measure_seconds([&] { return queue.launch_graph(is_ours ? mine : theirs); }));
      seconds[is_ours] = took / launches_per_replay;
    }
    if (round < 0) continue;
    ours.push_back(seconds[1]);
    copy.push_back(seconds[0]);
    ratios.push_back(seconds[0] / seconds[1]);
  }
  const Statistics ratio = compute_statistics(ratios);
  row.ridge_time = compute_statistics(ours);
  row.copy_time = compute_statistics(copy);
  row.ratio = ratio.median;
  row.ratio_low = ratio.min;
  row.ratio_high = ratio.max;
  RIDGE_TRY_STATUS(trial.launch_kernel());
  RIDGE_TRY_STATUS(trial.check_result(row));
  return row;
}

}  // namespace

std::optional<double> DeviceStreamCase::min_allowed_ratio() const {
  if (columns != 0) return 0.90;
  return cosine_count(kernel) > 1 ? std::nullopt : std::optional(0.97);
}

std::vector<DeviceStreamCase> device_stream_cases() {
  std::vector<DeviceStreamCase> all;
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const char* kernel : {"affine", "gelu", "silu_gate"}) all.push_back({kernel, dtype});
    if (dtype == DType::f32)
      for (const char* kernel : {"cos_1", "cos_4", "cos_16", "cos_64"}) all.push_back({kernel, dtype});
    for (const char* kernel : {"softmax", "rmsnorm"})
      for (std::int64_t columns = 1024; columns <= 131072; columns *= 2) all.push_back({kernel, dtype, columns});
  }
  return all;
}

Result<DeviceStreamBenchmark> run_device_stream_benchmark(const DeviceStreamOptions& options) {
  std::vector<DeviceStreamCase> cases = device_stream_cases();
  std::erase_if(cases, [&](const DeviceStreamCase& c) {
    return !options.only_kernel.empty() && c.kernel != options.only_kernel;
  });
  if (cases.empty())
    return input_error(fmt::format("no kernel is called '{}'", options.only_kernel),
                       "affine, gelu, silu_gate, cos_1, cos_4, cos_16, cos_64, softmax or rmsnorm");
  RIDGE_TRY(properties, device::device_properties());
  RIDGE_TRY(queue, device::Queue::create());
  DeviceStreamBenchmark out{.device = properties.name,
                            .day = today_utc(),
                            .driver = properties.driver,
                            .elements = options.elements,
                            .rounds = options.rounds};
  if (const Reason note = device::interpreter_note()) out.note = note.text();
  for (std::size_t i = 0; i < cases.size(); ++i) {
    if (options.progress) options.progress(i, cases.size());
    RIDGE_TRY(row, time_case(cases[i], options, queue));
    out.rows.push_back(std::move(row));
  }
  out.clocks = read_device_clocks();
  return out;
}

}  // namespace ridge
