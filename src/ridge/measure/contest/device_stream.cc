#include "ridge/measure/contest/device_stream.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "ridge/device/device.h"
#include "ridge/device/peak.h"
#include "ridge/device/run_generated.h"
#include "ridge/machine/system.h"
#include "ridge/measure/fill.h"
#include "ridge/ops/chain/cuda.h"
#include "ridge/ops/product/cuda.h"
#include "ridge/ops/rows/cuda.h"

namespace ridge {
namespace {

namespace cuda = ops::cuda;
using ops::ChainOp, ops::ChainStep;

constexpr int launches = 4;
constexpr std::int64_t samples = 1 << 14;

Status said(const std::optional<std::string>& trouble) {
  if (trouble) return absent_error("the CUDA device failed at " + *trouble, "`nvidia-smi` shows the device's state");
  return Done{};
}

int cosines(const std::string& kernel) { return kernel.starts_with("cos_") ? std::atoi(kernel.c_str() + 4) : 0; }

std::vector<ChainStep> steps_of(const std::string& kernel) {
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
    out.push_back({.op = ChainOp::cos, .result = 0, .a = 0, .repeat = cosines(kernel)});
  }
  out.push_back({.op = ChainOp::store, .a = 0, .slot = kernel == "silu_gate" ? 2 : 1});
  return out;
}

double exact(const std::string& kernel, double x, double u) {
  if (kernel == "affine") return static_cast<double>(static_cast<float>(x) * 1.3f) + static_cast<double>(0.2f);
  if (kernel == "gelu") return 0.5 * x * std::erfc(-x * std::sqrt(0.5));
  if (kernel == "silu_gate") return x / (1 + std::exp(-x)) * u;
  for (int i = 0; i < cosines(kernel); ++i) x = std::cos(x);
  return x;
}

class Trial {
 public:
  static Result<Trial> make(const DeviceStreamCase& what, const DeviceStreamOptions& options,
                            const cuda::Queue& queue) {
    Trial trial(what, queue, options.elements);
    for (int i = 0; i <= what.reads(); ++i) {
      auto memory = cuda::Memory::make(trial.array_bytes());
      if (!memory) return memory.error();
      trial.arrays_.push_back(std::move(*memory));
      if (i < what.reads())
        if (const Status filled =
                queue.fill_normal(trial.at(i), what.dtype, options.elements, static_cast<unsigned>(i));
            !filled)
          return filled.error();
    }
    if (const Status set = queue.set(trial.at(what.reads()), 0xff, trial.array_bytes()); !set) return set.error();
    return Result<Trial>(std::move(trial));
  }

  double bytes() const { return static_cast<double>(array_bytes()) * (what_.reads() + 1); }
  Result<cuda::Recording> recorded(bool ours) const {
    return queue_.record([&]() -> Status {
      for (int i = 0; i < launches; ++i)
        if (const Status queued = ours ? once() : copy_once(); !queued) return queued;
      return Done{};
    });
  }
  Status once() const {
    void* const data[] = {at(0), at(1), what_.reads() == 2 ? at(2) : nullptr};
    if (what_.columns != 0) {
      ops::RowProblem p;
      p.function = what_.kernel == "softmax" ? ops::RowFunction::softmax : ops::RowFunction::rmsnorm;
      p.rows = elements_ / what_.columns;
      p.columns = what_.columns;
      p.x = p.y = {what_.dtype, what_.columns};
      return said(cuda::rows(p, {at(0), nullptr, at(1)}, {}, queue_.stream()));
    }
    const ops::ChainTensor flat{what_.dtype, {1}};
    const std::vector<ops::ChainTensor> tensors(static_cast<std::size_t>(what_.reads() + 1), flat);
    return said(cuda::chain({{elements_}, tensors, steps_of(what_.kernel), 2},
                            std::span(data, static_cast<std::size_t>(what_.reads() + 1)), queue_.stream()));
  }

  // Checks intervals at the start, the middle and the end of the result.
  Status check(DeviceStreamRow& row) const {
    const std::int64_t run = std::max(what_.columns, samples);
    for (const std::int64_t from : {std::int64_t{0}, elements_ / 2 / run * run, elements_ - run}) {
      std::vector<std::vector<double>> v;
      for (int i = 0; i <= what_.reads(); ++i) {
        auto some = values(i, from, run);
        if (!some) return some.error();
        v.push_back(std::move(*some));
      }
      if (const Status ok = what_.columns == 0 ? check_chain(v, from, row) : check_rows(v, from, row); !ok) return ok;
    }
    return Done{};
  }

 private:
  Trial(const DeviceStreamCase& what, const cuda::Queue& queue, std::int64_t elements)
      : what_(what), queue_(queue), elements_(elements) {}

  std::int64_t array_bytes() const { return elements_ * bits(what_.dtype) / 8; }
  std::byte* at(int array) const { return arrays_[static_cast<std::size_t>(array)].data(); }

  // Copies half as many bytes as the kernel reads and writes, so that the copy's total traffic is equal.
  Status copy_once() const {
    const std::int64_t whole = array_bytes() * (what_.reads() + 1) / 2;
    for (std::int64_t done = 0; done < whole; done += array_bytes()) {
      const cuda::Streamed x{at(what_.reads()), at(0), std::min(array_bytes(), whole - done)};
      if (const Status queued = said(cuda::copy_all(x, 4 * cuda::multiprocessors(), queue_.stream())); !queued)
        return queued;
    }
    return Done{};
  }

  Result<std::vector<double>> values(int array, std::int64_t from, std::int64_t count) const {
    const std::int64_t size = bits(what_.dtype) / 8;
    std::vector<std::byte> raw(static_cast<std::size_t>(count * size));
    if (const Status copied = queue_.copy(raw.data(), at(array) + from * size, count * size); !copied)
      return copied.error();
    if (const Status waited = queue_.wait(); !waited) return waited.error();
    std::vector<double> out(static_cast<std::size_t>(count));
    const Array view{what_.dtype, count, raw.data()};
    for (std::int64_t i = 0; i < count; ++i) out[static_cast<std::size_t>(i)] = read(view, i);
    return out;
  }

  Status compare(double got, double want, double scale, std::int64_t element, DeviceStreamRow& row) const {
    const double error = std::abs(got - want) / std::max(std::abs(scale), what_.dtype == DType::f16 ? 0x1p-14 : 1e-30);
    if (!(error <= row.allowed))
      return Error{.kind = ErrorKind::mismatch,
                   .message = fmt::format("{} {} of {} columns is wrong at element {}: found {:.9g}, expected {:.9g}",
                                          what_.kernel, name(what_.dtype), what_.columns, element, got, want)};
    row.error = std::max(row.error, error);
    return Done{};
  }
  Status check_chain(const std::vector<std::vector<double>>& v, std::int64_t from, DeviceStreamRow& row) const {
    for (std::size_t i = 0; i < v[0].size(); ++i) {
      const double want = exact(what_.kernel, v[0][i], v.size() > 2 ? v[1][i] : 0);
      // A sum with cancellation is compared relative to its terms.
      const double scale = what_.kernel == "affine" ? std::max(std::abs(want), 0.2) : want;
      if (const Status ok = compare(v.back()[i], want, scale, from + static_cast<std::int64_t>(i), row); !ok) return ok;
    }
    return Done{};
  }
  Status check_rows(const std::vector<std::vector<double>>& v, std::int64_t from, DeviceStreamRow& row) const {
    const auto columns = static_cast<std::size_t>(what_.columns);
    const bool softmax = what_.kernel == "softmax";
    for (std::size_t first = 0; first < v[0].size(); first += columns) {
      double sum = 0;
      for (std::size_t i = 0; i < columns; ++i)
        sum += softmax ? std::exp(v[0][first + i]) : v[0][first + i] * v[0][first + i];
      const double scale = softmax ? 1 / sum : 1 / std::sqrt(sum / static_cast<double>(columns) + 1e-5f);
      for (std::size_t i = 0; i < columns; ++i) {
        const double want = scale * (softmax ? std::exp(v[0][first + i]) : v[0][first + i]);
        if (const Status ok = compare(v[1][first + i], want, want, from + static_cast<std::int64_t>(first + i), row);
            !ok)
          return ok;
      }
    }
    return Done{};
  }

  DeviceStreamCase what_;
  const cuda::Queue& queue_;
  std::int64_t elements_;
  std::vector<cuda::Memory> arrays_;
};

Result<DeviceStreamRow> play(const DeviceStreamCase& what, const DeviceStreamOptions& options,
                             const cuda::Queue& queue) {
  const auto trial = Trial::make(what, options, queue);
  if (!trial) return trial.error();
  DeviceStreamRow row;
  row.what = what;
  row.bytes = trial->bytes();
  row.allowed = 4.2e-3;
  if (what.dtype == DType::f32) row.allowed = 4e-6;
  if (what.dtype == DType::f16) row.allowed = 5.3e-4;
  if (const Status queued = trial->once(); !queued) return queued.error();
  if (const Status ok = trial->check(row); !ok) return ok.error();
  const auto mine = trial->recorded(true), theirs = trial->recorded(false);
  if (!mine) return mine.error();
  if (!theirs) return theirs.error();
  std::vector<double> ours, copy, ratios;
  for (int round = -1; round < options.rounds; ++round) {  // round -1 warms up
    double seconds[2] = {};
    for (const int turn : {0, 1}) {
      const bool is_ours = (turn == 0) == (round % 2 == 0);
      const auto took = queue.elapsed([&] { return queue.replay(is_ours ? *mine : *theirs); });
      if (!took) return took.error();
      seconds[is_ours] = *took / launches;
    }
    if (round < 0) continue;
    ours.push_back(seconds[1]);
    copy.push_back(seconds[0]);
    ratios.push_back(seconds[0] / seconds[1]);
  }
  const Statistics ratio = statistics(ratios);
  row.ours = statistics(ours);
  row.copy = statistics(copy);
  row.ratio = ratio.median;
  row.low = ratio.min;
  row.high = ratio.max;
  if (const Status queued = trial->once(); !queued) return queued.error();
  if (const Status ok = trial->check(row); !ok) return ok.error();
  return row;
}

}  // namespace

std::optional<double> DeviceStreamCase::bar() const {
  if (columns != 0) return 0.90;
  return cosines(kernel) > 1 ? std::nullopt : std::optional(0.97);
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

Result<DeviceStream> device_stream(const DeviceStreamOptions& options) {
  std::vector<DeviceStreamCase> cases = device_stream_cases();
  std::erase_if(cases, [&](const DeviceStreamCase& c) { return !options.only.empty() && c.kernel != options.only; });
  if (cases.empty())
    return input_error(fmt::format("no kernel is called '{}'", options.only),
                       "affine, gelu, silu_gate, cos_1, cos_4, cos_16, cos_64, softmax or rmsnorm");
  const auto facts = cuda::device_facts();
  if (!facts) return facts.error();
  const auto queue = cuda::Queue::make();
  if (!queue) return queue.error();
  DeviceStream out{.device = facts->name,
                   .day = today(),
                   .driver = facts->driver,
                   .elements = options.elements,
                   .rounds = options.rounds};
  out.note = cuda::interpreted().value_or("");
  for (std::size_t i = 0; i < cases.size(); ++i) {
    if (options.progress) options.progress(i, cases.size());
    auto row = play(cases[i], options, *queue);
    if (!row) return row.error();
    out.rows.push_back(std::move(*row));
  }
  out.clocks = device_clocks();
  return out;
}

}  // namespace ridge
