#include "ridge/measure/run_cuda.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "ridge/measure/device/nvml.h"
#include "ridge/measure/device_steps.h"

namespace ridge {
namespace {

namespace cuda = ops::cuda;

constexpr int least_samples = 5;
constexpr std::int64_t staged_bytes = std::int64_t{64} << 20;

std::int64_t size(const Array& array) { return array.elements * (bits(array.dtype) / 8); }

// Copies through pinned memory, because the copy engine cannot access other host memory.
class Carrier {
 public:
  static Result<Carrier> make(const cuda::Queue& queue) {
    auto pinned = cuda::Memory::make(staged_bytes, cuda::Memory::Location::host);
    if (!pinned) return pinned.error();
    return Carrier(queue, std::move(*pinned));
  }

  Status up(const Array& from, std::byte* to) const {
    return pieces(size(from), [&](std::int64_t at, std::int64_t bytes) -> Status {
      std::memcpy(pinned_.data(), from.data + at, static_cast<std::size_t>(bytes));
      return done(queue_.copy(to + at, pinned_.data(), bytes));
    });
  }
  Status down(const std::byte* from, const Array& to) const {
    return pieces(size(to), [&](std::int64_t at, std::int64_t bytes) -> Status {
      if (const Status copied = done(queue_.copy(pinned_.data(), from + at, bytes)); !copied) return copied;
      std::memcpy(to.data + at, pinned_.data(), static_cast<std::size_t>(bytes));
      return Done{};
    });
  }
  // Measures B/s from host to device and back.
  Status rates(DeviceNotes& notes) const {
    auto there = cuda::Memory::make(staged_bytes);
    if (!there) return there.error();
    for (const bool up : {true, false}) {
      std::vector<double> seconds;
      for (int i = 0; i < least_samples + 1; ++i) {
        const auto once = queue_.elapsed([&] {
          return up ? queue_.copy(there->data(), pinned_.data(), staged_bytes)
                    : queue_.copy(pinned_.data(), there->data(), staged_bytes);
        });
        if (!once) return once.error();
        if (i > 0) seconds.push_back(*once);
      }
      (up ? notes.host_to_device : notes.device_to_host) =
          static_cast<double>(staged_bytes) / statistics(seconds).median;
    }
    return Done{};
  }

 private:
  Carrier(const cuda::Queue& queue, cuda::Memory pinned) : queue_(queue), pinned_(std::move(pinned)) {}
  Status done(const Status& queued) const { return queued ? queue_.wait() : queued; }
  template <class Work> Status pieces(std::int64_t bytes, const Work& work) const {
    for (std::int64_t at = 0; at < bytes; at += staged_bytes)
      if (const Status done = work(at, std::min(staged_bytes, bytes - at)); !done) return done;
    return Done{};
  }
  const cuda::Queue& queue_;
  cuda::Memory pinned_;
};

class DeviceRun {
 public:
  DeviceRun(const DeviceWork& work, const RunOptions& options)
      : program_(work.program), explanation_(work.explanation), plan_(work.plan), options_(options) {}

  Result<DeviceSamples> perform(const std::vector<Array>& arrays) {
    if (const Status done = main_part(plan_, arrays); !done) return done.error();
    for (std::size_t i = 0; i < count(); ++i) {
      say(0.4 + 0.3 * static_cast<double>(i) / static_cast<double>(count()), "timing half and double size");
      out_.regimes.push_back(regime(i));
    }
    return std::move(out_);
  }

 private:
  std::size_t count() const { return plan_.fusion.groups.size(); }
  void say(double done, const std::string& doing) const {
    if (options_.progress) options_.progress(done, doing);
  }

  Status main_part(const Plan& plan, const std::vector<Array>& arrays) {
    if (options_.tune.candidates > 0) say(0.1, "measuring plans");
    auto steps = DeviceSteps::make(plan, options_.tune);
    if (!steps) return steps.error();
    out_.tuned = steps->tuned();
    const auto facts = cuda::device_facts();
    if (!facts) return facts.error();
    const auto carrier = Carrier::make(steps->queue());
    if (!carrier) return carrier.error();
    out_.notes.name = facts->name;
    out_.notes.driver = facts->driver;
    if (const Status measured = carrier->rates(out_.notes); !measured) return measured;
    say(0.1, "copying the inputs to the device");
    for (std::size_t i = 0; i < arrays.size(); ++i) {
      if (const Status up = carrier->up(arrays[i], steps->data(static_cast<int>(i))); !up) return up;
      (program_.tensors[i].role == Role::input ? out_.notes.input_bytes : out_.notes.output_bytes) += size(arrays[i]);
    }
    for (const Status& done : {steps->queue_all(), steps->queue().wait()})
      if (!done) return done;
    if (const Status timed = measure(*steps); !timed) return timed;
    say(0.38, "copying the results back");
    for (std::size_t i = 0; i < arrays.size(); ++i)
      if (program_.tensors[i].role != Role::input)
        if (const Status down = carrier->down(steps->data(static_cast<int>(i)), arrays[i]); !down) return down;
    return Done{};
  }

  Status measure(DeviceSteps& steps) {
    for (std::size_t i = 0; i < count(); ++i) {
      say(0.2 + 0.15 * static_cast<double>(i) / static_cast<double>(count()), "timing");
      auto seconds = steps.time(static_cast<int>(i), Passes::on_device(options_, count() + 1));
      if (!seconds) return seconds.error();
      if (i == 0) note_clock(out_.clocks.before_hz);
      out_.ops.push_back(std::move(*seconds));
    }
    auto passes = steps.time(std::nullopt, Passes::on_device(options_, count() + 1));
    if (!passes) return passes.error();
    note_clock(out_.clocks.after_hz);
    out_.passes = std::move(*passes);
    return launch_one_by_one(steps);
  }

  // Times a pass launched kernel by kernel, which is what a caller without graphs waits for.
  Status launch_one_by_one(const DeviceSteps& steps) {
    std::vector<double> seconds;
    for (int i = 0; i < 2 * least_samples; ++i) {
      const Timer timer;
      for (int pass = 0; pass < 8; ++pass)
        if (const Status queued = steps.queue_all(); !queued) return queued;
      if (const Status waited = steps.queue().wait(); !waited) return waited;
      seconds.push_back(timer.seconds() / 8);
    }
    out_.notes.eager_s = statistics(seconds).median;
    return Done{};
  }

  void note_clock(std::optional<double>& hz) {
    const auto clocks = device_clocks();
    if (!clocks) return;
    hz = clocks->sm_hz;
    out_.clocks.most_hz = clocks->most_sm_hz;
    out_.clocks.power_w = clocks->power_w;
    for (const std::string& why : clocks->slowed_by)
      if (std::find(out_.clocks.slowed_by.begin(), out_.clocks.slowed_by.end(), why) == out_.clocks.slowed_by.end())
        out_.clocks.slowed_by.push_back(why);
  }

  // Returns nullopt if the plan at other sizes has a different number of kernels.
  std::optional<RunPlan> planned_at(const Bindings& dims) const {
    const auto at = explain(program_, explanation_.machine, dims);
    if (!at) return std::nullopt;
    auto planned = plan_run(program_, *at, options_);
    if (!planned || planned->plan.fusion.groups.size() != count()) return std::nullopt;
    return *std::move(planned);
  }
  std::optional<double> bound(std::size_t kernel, const Bindings& dims) const {
    const auto planned = planned_at(dims);
    return planned ? planned->explanation.ops[kernel].time_lower_s : std::nullopt;
  }

  // Returns the dimension whose doubling increases the bound most.
  std::optional<std::string> longest(std::size_t kernel, double now) const {
    std::optional<std::string> best;
    double most = now * 1.0001;
    for (const auto& [dim, value] : explanation_.dims) {
      Bindings doubled = explanation_.dims;
      doubled[dim] = 2 * value;
      const auto then = bound(kernel, doubled);
      if (then && *then > most) {
        most = *then;
        best = dim;
      }
    }
    return best;
  }

  // Returns nullopt if the machine has no bound for the kernel, or if double the size does not fit.
  std::optional<Regime> regime(std::size_t kernel) const {
    const auto now = bound(kernel, explanation_.dims);
    const auto dim = now ? longest(kernel, *now) : std::nullopt;
    if (!dim || explanation_.dims.at(*dim) < 2) return std::nullopt;
    std::vector<std::pair<double, double>> points;
    const std::int64_t value = explanation_.dims.at(*dim);
    for (const std::int64_t extent : {value / 2, value, 2 * value}) {
      Bindings dims = explanation_.dims;
      dims[*dim] = extent;
      auto planned = planned_at(dims);
      const auto lower = planned ? planned->explanation.ops[kernel].time_lower_s : std::nullopt;
      if (!lower) return std::nullopt;
      auto steps =
          DeviceSteps::make(std::move(planned->plan), {.stored = options_.tune.stored}, static_cast<int>(kernel));
      if (!steps || !steps->fill_normal()) return std::nullopt;
      const auto seconds = steps->time(static_cast<int>(kernel), Passes::exactly(least_samples));
      if (!seconds) return std::nullopt;
      points.emplace_back(*lower, statistics(*seconds).median);
    }
    return regime_of(*dim, points, explanation_.ops[kernel].limiter);
  }

  const Program& program_;
  const Explanation& explanation_;
  const Plan& plan_;
  const RunOptions& options_;
  DeviceSamples out_;
};

}  // namespace

std::vector<int> generated_groups(const Plan& plan) {
  std::vector<int> out;
  for (const Step& step : plan.steps) {
    const bool generated = std::holds_alternative<ops::ChainProgram>(step.kernel) ||
                           std::holds_alternative<ops::RowProblem>(step.kernel) ||
                           std::holds_alternative<ops::RowProgram>(step.kernel);
    if (generated && (out.empty() || out.back() != step.group)) out.push_back(step.group);
  }
  return out;
}

Regime regime_of(const std::string& dim, const std::vector<std::pair<double, double>>& points,
                 std::optional<Limiter> limiter) {
  const auto& [half, once, twice] = std::tie(points[0], points[1], points[2]);
  Regime out{.dim = dim, .half_s = half.second, .once_s = once.second, .double_s = twice.second};
  const double slope = std::max(0.0, (twice.second - half.second) / (twice.first - half.first));
  out.fixed_s = std::clamp(once.second - slope * once.first, 0.0, once.second);
  out.limiter = out.fixed_s > 0.5 * once.second ? Limiter::overhead : limiter;
  return out;
}

Result<DeviceSamples> run_on_device(const DeviceWork& work, const std::vector<Array>& arrays,
                                    const RunOptions& options) {
  return DeviceRun(work, options).perform(arrays);
}

}  // namespace ridge
