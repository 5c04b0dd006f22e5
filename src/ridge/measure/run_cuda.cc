#include "ridge/measure/run_cuda.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "ridge/base/block_scale.h"
#include "ridge/base/ceil_div.h"
#include "ridge/base/contains.h"
#include "ridge/measure/clocks.h"
#include "ridge/run/device_steps.h"

namespace ridge {
namespace {

constexpr int min_samples = 5;
constexpr std::int64_t staged_bytes = std::int64_t{64} << 20;

std::int64_t array_bytes(const Array& array) { return stored_bytes(array.dtype, array.elements); }

// Reorders the elements of an array in place.
void reorder_to_row_major(const Array& array, const std::vector<PlanBuffer::AxisInMemory>& axes) {
  const auto bytes = static_cast<std::size_t>(dtype_bits(array.dtype) / 8);
  const std::vector<std::byte> from(array.data, array.data + array_bytes(array));
  std::vector<std::int64_t> index(axes.size());
  std::int64_t count = 1;
  for (const PlanBuffer::AxisInMemory& axis : axes) count *= axis.extent;
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t at = 0;
    for (std::size_t axis = 0; axis < axes.size(); ++axis) at += index[axis] * axes[axis].stride;
    std::memcpy(array.data + static_cast<std::size_t>(i) * bytes, from.data() + static_cast<std::size_t>(at) * bytes,
                bytes);
    for (std::size_t axis = axes.size(); axis-- > 0;) {
      if (++index[axis] < axes[axis].extent) break;
      index[axis] = 0;
    }
  }
}

// Copies through pinned memory, because the copy engine cannot access other host memory.
class HostTransfer {
 public:
  static Result<HostTransfer> make(const device::Queue& queue) {
    RIDGE_TRY(pinned, device::DeviceBuffer::allocate(staged_bytes, device::DeviceBuffer::Location::host));
    return HostTransfer(queue, std::move(pinned));
  }

  Status copy_to_device(const Array& from, std::byte* to) const {
    if (is_block_scaled(from.dtype)) return copy_blocks_to_device(from, to);
    return for_each_part(array_bytes(from), 1, [&](std::int64_t at, std::int64_t bytes) -> Status {
      std::memcpy(pinned_.data(), from.data + at, bytes);
      return wait_after(queue_.copy(to + at, pinned_.data(), bytes));
    });
  }
  Status copy_to_host(const std::byte* from, const Array& to) const {
    if (is_block_scaled(to.dtype)) return copy_blocks_to_host(from, to);
    return for_each_part(array_bytes(to), 1, [&](std::int64_t at, std::int64_t bytes) -> Status {
      RIDGE_TRY_STATUS(wait_after(queue_.copy(pinned_.data(), from + at, bytes)));
      std::memcpy(to.data + at, pinned_.data(), bytes);
      return Done{};
    });
  }
  // Measures B/s from host to device and back.
  Status measure_rates(DeviceMeasurement& notes) const {
    RIDGE_TRY(device_memory, device::DeviceBuffer::allocate(staged_bytes));
    for (const bool to_device : {true, false}) {
      std::vector<double> seconds;
      for (int i = 0; i < min_samples + 1; ++i) {
        RIDGE_TRY(replay_seconds, queue_.measure_seconds([&] {
          return to_device ? queue_.copy(device_memory.data(), pinned_.data(), staged_bytes)
                           : queue_.copy(pinned_.data(), device_memory.data(), staged_bytes);
        }));
        if (i > 0) seconds.push_back(replay_seconds);
      }
      (to_device ? notes.host_to_device_bytes_per_s : notes.device_to_host_bytes_per_s) =
          static_cast<double>(staged_bytes) / compute_statistics(seconds).median;
    }
    return Done{};
  }

 private:
  HostTransfer(const device::Queue& queue, device::DeviceBuffer pinned) : queue_(queue), pinned_(std::move(pinned)) {}
  Status wait_after(const Status& queued) const { return queued ? queue_.synchronize() : queued; }
  // Calls work(first, count) for parts of an array of `count` items, each of which fits in pinned memory.
  template <class Work> static Status for_each_part(std::int64_t count, std::int64_t item_bytes, const Work& work) {
    const std::int64_t step = staged_bytes / item_bytes;
    for (std::int64_t first = 0; first < count; first += step)
      RIDGE_TRY_STATUS(work(first, std::min(step, count - first)));
    return Done{};
  }
  // Copy block-scaled arrays, whose elements and scales have separate planes on a device. Parts have whole pairs of
  // blocks, since two blocks of nvfp4 share a unit of elements.
  struct PlaneBytes {
    std::int64_t pair, elements, scales;  // Bytes of two blocks, of their elements and of their scales
    explicit PlaneBytes(DType dtype)
        : pair(stored_bytes(dtype, 2 * dtype_info(dtype).block)),
          elements(element_plane_bytes(dtype, 2 * dtype_info(dtype).block)),
          scales(pair - elements) {}
  };
  // Calls copy(pair, blocks) for each part: its first pair of blocks, and the number of its blocks.
  template <class Copy> static Status for_each_part_of_blocks(const Array& array, const Copy& copy) {
    const std::int64_t blocks = array.elements / dtype_info(array.dtype).block;
    return for_each_part(
        ceil_div(blocks, std::int64_t{2}), PlaneBytes(array.dtype).pair,
        [&](std::int64_t first, std::int64_t pairs) { return copy(first, std::min(2 * pairs, blocks - 2 * first)); });
  }
  Status copy_blocks_to_device(const Array& from, std::byte* to) const {
    const PlaneBytes bytes(from.dtype);
    std::byte* const scales = to + element_plane_bytes(from.dtype, from.elements);
    return for_each_part_of_blocks(from, [&](std::int64_t pair, std::int64_t blocks) -> Status {
      std::byte* const pinned_scales = pinned_.data() + blocks * bytes.elements / 2;
      split_blocks(from.dtype, from.data + pair * bytes.pair, blocks, pinned_.data(), pinned_scales);
      RIDGE_TRY_STATUS(queue_.copy(to + pair * bytes.elements, pinned_.data(), blocks * bytes.elements / 2));
      return wait_after(queue_.copy(scales + pair * bytes.scales, pinned_scales, blocks * bytes.scales / 2));
    });
  }
  Status copy_blocks_to_host(const std::byte* from, const Array& to) const {
    const PlaneBytes bytes(to.dtype);
    const std::byte* const scales = from + element_plane_bytes(to.dtype, to.elements);
    return for_each_part_of_blocks(to, [&](std::int64_t pair, std::int64_t blocks) -> Status {
      std::byte* const pinned_scales = pinned_.data() + blocks * bytes.elements / 2;
      RIDGE_TRY_STATUS(queue_.copy(pinned_.data(), from + pair * bytes.elements, blocks * bytes.elements / 2));
      RIDGE_TRY_STATUS(wait_after(queue_.copy(pinned_scales, scales + pair * bytes.scales, blocks * bytes.scales / 2)));
      join_blocks(to.dtype, pinned_.data(), pinned_scales, blocks, to.data + pair * bytes.pair);
      return Done{};
    });
  }
  const device::Queue& queue_;
  device::DeviceBuffer pinned_;
};

class DeviceRun {
 public:
  DeviceRun(const DeviceRunRequest& work, const RunOptions& options)
      : program_(work.program), explanation_(work.explanation), plan_(work.plan), options_(options) {}

  Result<DeviceSamples> measure_all(const std::vector<Array>& arrays) {
    RIDGE_TRY_STATUS(run_and_time(plan_, arrays));
    for (std::size_t i = 0; i < kernel_count(); ++i) {
      report_progress(0.4 + 0.3 * static_cast<double>(i) / static_cast<double>(kernel_count()),
                      "timing half and double size");
      out_.measured_bounds.push_back(measure_bound(i));
    }
    return std::move(out_);
  }

 private:
  std::size_t kernel_count() const { return plan_.fusion.groups.size(); }
  void report_progress(double done, const std::string& doing) const {
    if (options_.progress) options_.progress(done, doing);
  }

  Status run_and_time(const Plan& plan, const std::vector<Array>& arrays) {
    if (options_.tune.candidates > 0) report_progress(0.1, "measuring plans");
    RIDGE_TRY(steps, DeviceSteps::make(plan, options_.tune));
    out_.tuned = steps.tuning_results();
    RIDGE_TRY(properties, device::device_properties());
    RIDGE_TRY(transfer, HostTransfer::make(steps.queue()));
    out_.notes.name = properties.name;
    out_.notes.driver = properties.driver;
    RIDGE_TRY_STATUS(transfer.measure_rates(out_.notes));
    report_progress(0.1, "copying the inputs to the device");
    for (std::size_t i = 0; i < arrays.size(); ++i) {
      RIDGE_TRY_STATUS(transfer.copy_to_device(arrays[i], steps.buffer_data(static_cast<int>(i))));
      (program_.tensors[i].role == TensorRole::input ? out_.notes.input_bytes : out_.notes.output_bytes) +=
          array_bytes(arrays[i]);
    }
    RIDGE_TRY_STATUS(steps.queue_all_steps());
    RIDGE_TRY_STATUS(steps.queue().synchronize());
    RIDGE_TRY_STATUS(time_kernels(steps));
    report_progress(0.38, "copying the results back");
    for (std::size_t i = 0; i < arrays.size(); ++i) {
      if (program_.tensors[i].role == TensorRole::input) continue;
      RIDGE_TRY_STATUS(transfer.copy_to_host(steps.buffer_data(static_cast<int>(i)), arrays[i]));
      if (const auto& axes = plan.buffers[i].axes; !axes.empty()) reorder_to_row_major(arrays[i], axes);
    }
    return Done{};
  }

  Status time_kernels(DeviceSteps& steps) {
    for (std::size_t i = 0; i < kernel_count(); ++i) {
      report_progress(0.2 + 0.15 * static_cast<double>(i) / static_cast<double>(kernel_count()), "timing");
      RIDGE_TRY(seconds, steps.time_steps(static_cast<int>(i), PassCounter::for_device(options_, kernel_count() + 1)));
      if (i == 0) record_clock(out_.clocks.before_hz);
      out_.ops.push_back(std::move(seconds));
    }
    RIDGE_TRY(passes, steps.time_steps(std::nullopt, PassCounter::for_device(options_, kernel_count() + 1)));
    record_clock(out_.clocks.after_hz);
    out_.passes = std::move(passes);
    return time_eager_passes(steps);
  }

  // Times a pass launched kernel by kernel, which is what a caller without graphs waits for.
  Status time_eager_passes(const DeviceSteps& steps) {
    std::vector<double> seconds;
    for (int i = 0; i < 2 * min_samples; ++i) {
      const Timer timer;
      for (int pass = 0; pass < 8; ++pass) RIDGE_TRY_STATUS(steps.queue_all_steps());
      RIDGE_TRY_STATUS(steps.queue().synchronize());
      seconds.push_back(timer.seconds() / 8);
    }
    out_.notes.eager_s = compute_statistics(seconds).median;
    return Done{};
  }

  void record_clock(std::optional<double>& hz) {
    const auto clocks = read_device_clocks();
    if (!clocks) return;
    hz = clocks->sm_hz;
    out_.clocks.max_hz = clocks->max_sm_hz;
    out_.clocks.power_w = clocks->power_w;
    for (const std::string& why : clocks->throttle_reasons)
      if (!contains(out_.clocks.throttle_reasons, why)) out_.clocks.throttle_reasons.push_back(why);
  }

  // Returns nullopt if the plan at other sizes has a different number of kernels.
  std::optional<PlannedRun> plan_at(const Bindings& dims) const {
    const auto at = explain(program_, explanation_.machine, dims);
    if (!at) return std::nullopt;
    auto planned = plan_run(program_, *at, options_);
    if (!planned || planned->plan.fusion.groups.size() != kernel_count()) return std::nullopt;
    return *std::move(planned);
  }
  std::optional<double> bound_at(std::size_t kernel, const Bindings& dims) const {
    const auto planned = plan_at(dims);
    return planned ? planned->explanation.ops[kernel].time_lower_s : std::nullopt;
  }

  // Returns the dimension whose doubling increases the bound most.
  std::optional<std::string> find_dominant_dim(std::size_t kernel, double actual_bound) const {
    std::optional<std::string> best;
    double max_bound = actual_bound * 1.0001;
    for (const auto& [dim, value] : explanation_.dims) {
      Bindings doubled = explanation_.dims;
      doubled[dim] = 2 * value;
      const auto doubled_bound = bound_at(kernel, doubled);
      if (doubled_bound && *doubled_bound > max_bound) {
        max_bound = *doubled_bound;
        best = dim;
      }
    }
    return best;
  }

  // Returns nullopt if the machine has no bound for the kernel, or if double the size does not fit.
  std::optional<MeasuredBound> measure_bound(std::size_t kernel) const {
    const auto actual_bound = bound_at(kernel, explanation_.dims);
    const auto dim = actual_bound ? find_dominant_dim(kernel, *actual_bound) : std::nullopt;
    if (!dim || explanation_.dims.at(*dim) < 2) return std::nullopt;
    std::vector<std::pair<double, double>> points;
    const std::int64_t value = explanation_.dims.at(*dim);
    for (const std::int64_t extent : {value / 2, value, 2 * value}) {
      Bindings dims = explanation_.dims;
      dims[*dim] = extent;
      auto planned = plan_at(dims);
      const auto lower = planned ? planned->explanation.ops[kernel].time_lower_s : std::nullopt;
      if (!lower) return std::nullopt;
      auto steps = DeviceSteps::make(std::move(planned->plan), {.use_stored = options_.tune.use_stored},
                                     static_cast<int>(kernel));
      if (!steps || !steps->fill_normal()) return std::nullopt;
      const auto seconds = steps->time_steps(static_cast<int>(kernel), PassCounter::exact_count(min_samples));
      if (!seconds) return std::nullopt;
      points.emplace_back(*lower, compute_statistics(*seconds).median);
    }
    return classify_bound(*dim, points, explanation_.ops[kernel].limiter);
  }

  const Program& program_;
  const Explanation& explanation_;
  const Plan& plan_;
  const RunOptions& options_;
  DeviceSamples out_;
};

}  // namespace

std::vector<int> list_row_function_groups(const Plan& plan) {
  std::vector<int> out;
  for (const PlanStep& step : plan.steps)
    if (std::holds_alternative<ops::RowProblem>(step.kernel) && (out.empty() || out.back() != step.group))
      out.push_back(step.group);
  return out;
}

MeasuredBound classify_bound(const std::string& dim, const std::vector<std::pair<double, double>>& points,
                             std::optional<Limiter> limiter) {
  const auto& [half, once, twice] = std::tie(points[0], points[1], points[2]);
  MeasuredBound out{.dim = dim, .half_s = half.second, .actual_s = once.second, .double_s = twice.second};
  const double slope = std::max(0.0, (twice.second - half.second) / (twice.first - half.first));
  out.fixed_s = std::clamp(once.second - slope * once.first, 0.0, once.second);
  out.limiter = out.fixed_s > 0.5 * once.second ? Limiter::overhead : limiter;
  return out;
}

Result<DeviceSamples> run_on_device(const DeviceRunRequest& work, const std::vector<Array>& arrays,
                                    const RunOptions& options) {
  return DeviceRun(work, options).measure_all(arrays);
}

}  // namespace ridge
