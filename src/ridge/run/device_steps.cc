#include "ridge/run/device_steps.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

#include "ridge/base/block_scale.h"
#include "ridge/base/dtype_set.h"

namespace ridge {
namespace {

constexpr std::int64_t cold_bytes = std::int64_t{256} << 20, line_bytes = 256;
constexpr std::int64_t max_sets = 64, max_launches = 256;
constexpr double min_replay_seconds = 2e-3, warmup_seconds = 0.02;

std::int64_t round_up_to_line(std::int64_t bytes) { return (bytes + line_bytes - 1) / line_bytes * line_bytes; }

// Returns the buffers that the steps use, in ascending order.
std::vector<int> list_used_buffers(const Plan& plan, std::optional<int> group) {
  std::set<int> used_buffers;
  for (const PlanStep& step : plan.steps)
    if (!group || step.group == *group) used_buffers.insert(step.buffers.begin(), step.buffers.end());
  if (!group)
    for (std::size_t i = 0; i < plan.buffers.size(); ++i) used_buffers.insert(static_cast<int>(i));
  used_buffers.erase(-1);  // marks an operand that is absent
  return {used_buffers.begin(), used_buffers.end()};
}

// Returns the extent that an index buffer of a gather or scatter indexes; 0 for other buffers.
std::int64_t indexed_extent(const Plan& plan, int buffer) {
  for (const PlanStep& step : plan.steps)
    if (const auto* indexed = std::get_if<ops::GatherScatterLoops>(&step.kernel))
      if (step.buffers[1] == buffer) return indexed->index_extent;
  return 0;
}

}  // namespace

Result<DeviceSteps> DeviceSteps::allocate_and_make(Plan plan, const LaunchOptions& launch_options,
                                                   const std::vector<std::byte*>& external_buffers) {
  RIDGE_TRY(queue, device::Queue::create());
  const std::vector<int> needed = list_used_buffers(plan, launch_options.group);
  std::vector<device::DeviceBuffer> memories;
  BufferAddresses addresses;
  for (std::size_t i = 0; i < plan.buffers.size(); ++i) {
    std::byte* const external_buffer = i < external_buffers.size() ? external_buffers[i] : nullptr;
    const bool needs_memory =
        external_buffer == nullptr && std::binary_search(needed.begin(), needed.end(), static_cast<int>(i));
    RIDGE_TRY(memory, device::DeviceBuffer::allocate(needs_memory ? plan.buffers[i].size_bytes() : 0));
    memories.push_back(std::move(memory));
    addresses.push_back(external_buffer != nullptr ? external_buffer : memories.back().data());
  }
  RIDGE_TRY(launches, DeviceLaunches::make(std::move(plan), addresses, launch_options));
  DeviceSteps out(std::move(launches), std::move(queue), std::move(memories), std::move(addresses));
  RIDGE_TRY_STATUS(out.prepare_workspace());
  return out;
}

Result<DeviceSteps> DeviceSteps::make(Plan plan, const TuneOptions& tune, std::optional<int> group) {
  return allocate_and_make(std::move(plan), {.tune = tune, .group = group}, {});
}

Result<DeviceSteps> DeviceSteps::make_with_buffers(const std::vector<std::byte*>& external_buffers, Plan plan,
                                                   const LaunchOptions& launch_options) {
  return allocate_and_make(std::move(plan), launch_options, external_buffers);
}

Status DeviceSteps::prepare_workspace() {
  const std::size_t bytes = std::max(device::counter_bytes, launches_.workspace_bytes());
  RIDGE_TRY(memory, device::DeviceBuffer::allocate(static_cast<std::int64_t>(bytes)));
  workspace_.push_back(std::move(memory));
  RIDGE_TRY_STATUS(queue_.set_bytes(workspace_[0].data(), 0, static_cast<std::int64_t>(device::counter_bytes)));
  return write_index_buffers();
}

Status DeviceSteps::write_index_buffers() const {
  for (std::size_t i = 0; i < plan().buffers.size(); ++i) {
    const PlanBuffer& buffer = plan().buffers[i];
    if (!buffer.holds_indices || memory_[i].bytes() < buffer.size_bytes()) continue;
    const std::vector<float> indices = index_values(buffer);
    RIDGE_TRY_STATUS(queue_.copy(addresses_[i], indices.data(), buffer.size_bytes()));
    RIDGE_TRY_STATUS(queue_.synchronize());
  }
  return Done{};
}

// Writes indices below `extent` that jump, as random ones do.
Status DeviceSteps::write_scattered_indices(int buffer, std::int64_t extent) const {
  constexpr std::int64_t stride = 7919;  // A prime, so that most extents are visited completely
  const PlanBuffer& indices = plan().buffers[buffer];
  std::vector<std::byte> bytes(static_cast<std::size_t>(indices.size_bytes()));
  for (std::int64_t i = 0; i < indices.elements; ++i) {
    const auto index = static_cast<std::int32_t>(i * stride % extent);
    std::memcpy(bytes.data() + stored_bytes(indices.dtype, i), &index,
                static_cast<std::size_t>(stored_bytes(indices.dtype, 1)));
  }
  RIDGE_TRY_STATUS(queue_.copy(addresses_[buffer], bytes.data(), indices.size_bytes()));
  return queue_.synchronize();
}

// Bytes of random e4m3 are random elements of 4 bits, too. A scale of bytes of 0x38 is 1 as e4m3, and as a power of
// two, f16 or f32 so small that sums stay finite.
Status DeviceSteps::fill_blocks(int index) const {
  const PlanBuffer& buffer = plan().buffers[static_cast<std::size_t>(index)];
  const std::int64_t element_bytes = element_plane_bytes(buffer.dtype, buffer.elements);
  auto* const data = static_cast<std::byte*>(addresses_[static_cast<std::size_t>(index)]);
  RIDGE_TRY_STATUS(queue_.fill_normal(data, DType::e4m3, element_bytes, static_cast<std::uint32_t>(index)));
  return queue_.set_bytes(data + element_bytes, 0x38, buffer.size_bytes() - element_bytes);
}

Status DeviceSteps::fill_normal() {
  for (std::size_t i = 0; i < plan().buffers.size(); ++i) {
    const PlanBuffer& buffer = plan().buffers[i];
    if (buffer.holds_indices || memory_[i].bytes() < buffer.size_bytes()) continue;  // not allocated: another kernel's
    if (const std::int64_t extent = indexed_extent(plan(), static_cast<int>(i)); extent > 0) {
      RIDGE_TRY_STATUS(write_scattered_indices(static_cast<int>(i), extent));
      continue;
    }
    // Other buffers have lengths, or no kernel reads them. 1 in every byte of an integer is at least 2^24, which means
    // the full length.
    if (is_block_scaled(buffer.dtype)) {
      RIDGE_TRY_STATUS(fill_blocks(static_cast<int>(i)));
      continue;
    }
    const Status done =
        RandomDTypes::contains(buffer.dtype)
            ? queue_.fill_normal(addresses_[i], buffer.dtype, buffer.elements, static_cast<std::uint32_t>(i))
            : queue_.set_bytes(addresses_[i], 1, buffer.size_bytes());
    if (!done) return done;
  }
  return Done{};
}

Status DeviceSteps::queue_steps(CUstream_st* stream, std::optional<int> group, const BufferAddresses& addresses) const {
  const device::DeviceWorkspace workspace{workspace_[0].data(), static_cast<std::size_t>(workspace_[0].bytes()), true};
  return launches_.queue_steps(stream, addresses, workspace, group);
}

Status DeviceSteps::queue_all_steps() const { return queue_steps(queue_.stream(), std::nullopt, addresses_); }

Status DeviceSteps::queue_steps_on(const device::Queue& queue, std::optional<int> group) const {
  return queue_steps(queue.stream(), group, addresses_);
}

// Returns copies of the buffers that the steps use: as many as touch `cold_bytes`, or as fit.
Result<std::vector<DeviceSteps::BufferAddresses>> DeviceSteps::make_rotating_copies(
    std::optional<int> group, std::vector<device::DeviceBuffer>& pool) const {
  std::vector<BufferAddresses> sets{addresses_};
  const std::vector<int> buffers = list_used_buffers(plan(), group);
  std::int64_t bytes = 0;
  for (const int b : buffers) bytes += round_up_to_line(plan().buffers[b].size_bytes());
  if (bytes == 0) return sets;
  const std::int64_t copies = std::min(cold_bytes / bytes, max_sets - 1);
  RIDGE_TRY(properties, device::device_properties());
  if (copies <= 0 || copies * bytes > properties.free_bytes * 3 / 4) return sets;
  RIDGE_TRY(memory, device::DeviceBuffer::allocate(copies * bytes));
  pool.push_back(std::move(memory));
  std::byte* at = pool.back().data();
  for (std::int64_t i = 0; i < copies; ++i) {
    sets.push_back(addresses_);
    for (const int b : buffers) {
      const std::size_t index = b;
      RIDGE_TRY_STATUS(queue_.copy(at, addresses_[index], plan().buffers[index].size_bytes()));
      sets.back()[index] = at;
      at += round_up_to_line(plan().buffers[index].size_bytes());
    }
  }
  return sets;
}

Result<std::vector<double>> DeviceSteps::time_steps(std::optional<int> group, PassCounter passes) {
  std::vector<device::DeviceBuffer> pool;
  RIDGE_TRY(sets, make_rotating_copies(group, pool));
  const auto record_launches = [&](std::int64_t count) {
    return queue_.record_graph([&]() -> Status {
      for (std::int64_t i = 0; i < count; ++i)
        RIDGE_TRY_STATUS(queue_steps(queue_.stream(), group, sets[static_cast<std::size_t>(i) % sets.size()]));
      return Done{};
    });
  };
  const auto replay = [&](const device::RecordedGraph& recording) {
    return queue_.measure_seconds([&] { return queue_.launch_graph(recording); });
  };
  RIDGE_TRY(warm_up_recording, record_launches(static_cast<std::int64_t>(sets.size())));
  double launch_seconds = 0;
  for (int i = 0; i < 2; ++i) {  // the first replay loads the kernels
    RIDGE_TRY(seconds, replay(warm_up_recording));
    launch_seconds = seconds / static_cast<double>(sets.size());
  }
  const auto count =
      std::clamp(static_cast<std::int64_t>(std::ceil(min_replay_seconds / std::max(launch_seconds, 1e-7))),
                 static_cast<std::int64_t>(sets.size()), max_launches);
  RIDGE_TRY(recording, record_launches(count));
  std::vector<double> out;
  double warmed = 0;
  while (passes.needs_more()) {
    RIDGE_TRY(seconds, replay(recording));
    if (warmed < warmup_seconds) {
      warmed += seconds + 1e-6;
      continue;
    }
    passes.add_pass(seconds + 1e-6);
    out.push_back(seconds / static_cast<double>(count));
  }
  return out;
}

}  // namespace ridge
